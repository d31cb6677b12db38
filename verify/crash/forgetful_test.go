package crash

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/verify/crash/history"
)

// forgetfulEnv makes the test binary the forgetful service. With the value [again] it
// remembers too much: it reads all commands at its start, and fires what has fired.
const (
	forgetfulEnv = "CRASH_FORGETFUL"
	again        = "again"
)

// forgetful is a timer service as one might write it in an hour: it acks what it
// has only in memory. It knows nothing of cancellations, versions and invalid
// messages. The tests want to see it convicted.
func forgetful() error {
	nc, err := nats.Connect(os.Getenv("TIMER_BROKER_URL"))
	if err != nil {
		return err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	ctx := context.Background()
	_, err = js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: streamName, Subjects: []string{history.AllTopics, history.CommandsTopic},
	})
	if err != nil {
		return err
	}
	consumer, err := js.CreateOrUpdateConsumer(ctx, streamName, jetstream.ConsumerConfig{
		Durable: "forgetful", FilterSubject: history.CommandsTopic, AckPolicy: jetstream.AckExplicitPolicy,
	})
	if err != nil {
		return err
	}
	if os.Getenv(forgetfulEnv) == again {
		if err := fireAgain(ctx, js); err != nil {
			return err
		}
	}
	_, err = consumer.Consume(func(msg jetstream.Msg) {
		remember(js, msg)
		_ = msg.Ack() // it cares for nothing
	})
	if err != nil {
		return err
	}
	fmt.Println("store      in memory\nready      perhaps")
	select {}
}

// fireAgain takes all commands that the broker keeps, and does not look what has fired.
func fireAgain(ctx context.Context, js jetstream.JetStream) error {
	consumer, err := js.OrderedConsumer(ctx, streamName, jetstream.OrderedConsumerConfig{FilterSubjects: []string{history.CommandsTopic}})
	if err != nil {
		return err
	}
	_, err = consumer.Consume(func(msg jetstream.Msg) { remember(js, msg) })
	return err
}

// remember fires the timer of a message, if this process lives until then.
func remember(js jetstream.JetStream, msg jetstream.Msg) {
	var c struct {
		ID, Type, CorrelationID string
		Payload                 struct {
			TenantID, ServiceCallID string
			DueAt                   time.Time
		}
	}
	if json.Unmarshal(msg.Data(), &c) != nil || c.Type != "ScheduleTimer" || c.Payload.DueAt.IsZero() {
		return
	}
	if c.CorrelationID == "" {
		c.CorrelationID = msg.Headers().Get("correlationId")
	}
	due := c.Payload.DueAt.UTC().Add(time.Millisecond - 1).Truncate(time.Millisecond)
	time.AfterFunc(time.Until(due), func() {
		const form = "2006-01-02T15:04:05.000Z"
		tenant, call, id, now := c.Payload.TenantID, c.Payload.ServiceCallID, eventID(c.ID, due), time.Now().UTC()
		body := fmt.Sprintf(`{"id":%q,"type":"DueTimeReached","tenantId":%q,"aggregateId":%q,"timestampMs":%d,"correlationId":%q,`+
			`"payload":{"tenantId":%q,"serviceCallId":%q,"dueAt":%q,"reachedAt":%q}}`,
			id, tenant, call, now.UnixMilli(), c.CorrelationID, tenant, call, due.Format(form), now.Format(form))
		event := nats.NewMsg(history.EventsTopic(tenant))
		event.Data = []byte(body)
		for name, value := range map[string]string{
			"type": "DueTimeReached", "tenantId": tenant, "serviceCallId": call,
			"messageId": id, "correlationId": c.CorrelationID, "Nats-Msg-Id": id,
		} {
			event.Header.Set(name, value)
		}
		_, _ = js.PublishMsg(context.Background(), event) // it cares for nothing
	})
}

// eventID returns a UUID of version 7 with the due time in it.
func eventID(command string, due time.Time) string {
	var id [16]byte
	sum := sha256.Sum256([]byte(command))
	binary.BigEndian.PutUint64(id[:], uint64(due.UnixMilli())<<16)
	copy(id[6:], sum[:])
	id[6], id[8] = id[6]&0x0f|0x70, id[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
