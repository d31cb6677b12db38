package app_test

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
	"github.com/event-service-agent/timer-service/timertest"
)

// TestReceiptsSayWhatBecameOfEachCommand sends commands with each outcome, and each
// twice, as a broker may that has lost the ack.
func TestReceiptsSayWhatBecameOfEachCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counters := new(app.Counters)
		b := timertest.Start(t, timertest.Options(app.Options{Counters: counters}), timertest.Receipts()).Broker()
		ctx, r := t.Context(), b.Routing()
		receipts, err := b.Tail().Subscribe(ctx, r.ReceiptsOf("acme"))
		if err != nil {
			t.Fatal(err)
		}
		var came []*message.Message
		go func() {
			for m := range receipts {
				came = append(came, m)
				m.Ack()
			}
		}()
		began := time.Now()
		key := keyOf("order-1")
		version := func(n int64, id string) timer.Version {
			return timer.Version{TimestampMS: began.UnixMilli() + n, CommandID: id}
		}
		schedule := func(n int64, id string, due time.Duration) []byte {
			return envelope.Schedule(timer.ScheduleTimer{Key: key, Version: version(n, id), DueAt: began.Add(due), CorrelationID: "req-" + id})
		}
		send := func(body []byte) {
			for range 2 {
				if err := b.Publisher().Publish(ctx, broker.Message{Topic: r.Commands, Message: message.NewMessage("x", body)})[0]; err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				time.Sleep(10 * time.Second)
				synctest.Wait()
			}
		}
		send(schedule(2, "c-2", time.Hour))
		send(schedule(1, "c-1", time.Hour))
		send(envelope.Cancel(timer.CancelTimer{Key: key, Version: version(3, "c-3")}))
		send(schedule(4, "c-4", 3*time.Minute))
		send([]byte(`{"id":"c-5","type":"ScheduleTimer","tenantId":"acme","aggregateId":"order-1","correlationId":"req-c-5"}`))
		send([]byte(`{"id":"c-6","type":"ScheduleTimer","tenantId":"?"}`))
		time.Sleep(5 * time.Minute)
		send(schedule(7, "c-7", time.Hour))
		send(schedule(4, "c-4", 3*time.Minute))

		type answer struct{ Type, Command, Correlation, Reason string }
		var got []answer
		ids := make(map[string]answer)
		synctest.Wait()
		for _, m := range came {
			decoded, err := envelope.Decode(m.Payload)
			if err != nil {
				t.Fatal(err, string(m.Payload))
			}
			r := decoded.Payload.(timer.Receipt)
			a := answer{string(r.Type), r.CommandID, r.CorrelationID, string(r.Reason)}
			if before, seen := ids[m.UUID]; seen && before != a {
				t.Errorf("%s says %v, and before %v", m.UUID, a, before)
			} else if !seen {
				got = append(got, a)
			}
			ids[m.UUID] = a
			if r.Key != key || decoded.ID != m.UUID || m.Metadata.Get(envelope.HeaderType) != string(r.Type) {
				t.Errorf("%s %v", m.Payload, m.Metadata)
			}
		}
		want := []answer{
			{"TimerScheduled", "c-2", "req-c-2", ""},
			{"TimerIgnored", "c-1", "req-c-1", "stale"},
			{"TimerCanceled", "c-3", "", ""},
			{"TimerScheduled", "c-4", "req-c-4", ""},
			{"TimerRejected", "c-5", "req-c-5", "missing_field"},
			{"TimerIgnored", "c-7", "req-c-7", "reached"},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("receipts (-want +got):\n%s", diff)
		}
		if late := counters.Lateness(); counters.Forwarded() != 1 || late.Events != 1 {
			text, _ := json.Marshal(late)
			t.Errorf("%d events forwarded, lateness %s; want one event", counters.Forwarded(), text)
		}
	})
}
