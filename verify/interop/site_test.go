package interop_test

import (
	"os"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/event-service-agent/timer-service/internal/natsd"
	"github.com/event-service-agent/timer-service/verify/crash"
	"github.com/event-service-agent/timer-service/verify/internal/harness"
	"github.com/event-service-agent/timer-service/verify/internal/kafkanode"
)

// openNATS starts three servers.
func openNATS(t *testing.T, dir string) site {
	t.Helper()
	servers := t.TempDir()
	program, err := natsd.Build(t.Context(), servers)
	harness.Must(t, err)
	cluster, err := natsd.Start(t.Context(), program, servers, "")
	harness.Must(t, err)
	t.Cleanup(func() { _ = cluster.Close() })
	serveIn(t, dir, "TIMER_BROKER=nats", "TIMER_BROKER_URL="+cluster.URL())
	c := connectNATS(t, cluster.URL())
	return site{
		address: cluster.URLs()[0],
		version: c.js.Conn().ConnectedServerVersion(),
		publish: func(t *testing.T, body string) {
			t.Helper()
			if _, err := c.js.Publish(t.Context(), "svc.acme.serviceCall", []byte(body)); err != nil {
				t.Fatal(err)
			}
		},
		unacked: func(t *testing.T, name string) int {
			t.Helper()
			consumer, err := c.js.Consumer(t.Context(), "svc", name)
			harness.Must(t, err)
			info := consumer.CachedInfo()
			return int(info.NumPending) + info.NumAckPending
		},
	}
}

// openRabbitMQ starts the server that is installed.
func openRabbitMQ(t *testing.T, dir string) site {
	return useRabbitMQ(t, dir, harness.StartBroker(t, crash.RabbitMQ).URL())
}

// openRabbitMQ4 uses a server that is empty.
func openRabbitMQ4(t *testing.T, dir string) site {
	t.Helper()
	url := os.Getenv("TIMER_TEST_RABBITMQ4")
	if url == "" {
		harness.Missing(t, "set TIMER_TEST_RABBITMQ4 to the URL of a RabbitMQ 4 that is empty")
	}
	return useRabbitMQ(t, dir, url)
}

func useRabbitMQ(t *testing.T, dir, url string) site {
	t.Helper()
	serveIn(t, dir, "TIMER_BROKER=rabbitmq", "TIMER_BROKER_URL="+url)
	conn, err := amqp.Dial(url)
	harness.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() }) // nothing is under way
	channel, err := conn.Channel()
	if err == nil {
		err = channel.Confirm(false)
	}
	harness.Must(t, err)
	version, _ := conn.Properties["version"].(string)
	return site{
		address: strings.TrimSuffix(url, "/"), // for Java's client the slash names a virtual host ""
		version: version,
		publish: func(t *testing.T, body string) {
			t.Helper()
			confirm, err := channel.PublishWithDeferredConfirmWithContext(t.Context(), "svc.direct", "svc.acme.q", true, false, amqp.Publishing{Body: []byte(body)})
			if err == nil {
				_, err = confirm.WaitContext(t.Context())
			}
			harness.Must(t, err)
		},
		onlyWaiting: true,
		unacked: func(t *testing.T, _ string) int {
			t.Helper()
			q, err := channel.QueueDeclarePassive("svc.acme.q", true, false, false, false, nil)
			harness.Must(t, err)
			return q.Messages + 2*q.Consumers // until the broker notices that the program has ended, it keeps what that has not acked
		},
	}
}

// openKafka starts Apache Kafka, or the fake of franz-go where there is no Java.
func openKafka(t *testing.T, dir string) site {
	t.Helper()
	address, version := "", "fake of franz-go, NOTHING IS PROVEN OF KAFKA"
	if kafkanode.Installed() || os.Getenv("TIMER_TEST_REQUIRE") != "" {
		var err error
		if version, err = kafkanode.Fetch(); err != nil {
			harness.Missing(t, "%v", err)
		}
		nodes, err := kafkanode.Start(t.Context(), t.TempDir(), kafkanode.Options{})
		harness.Must(t, err)
		t.Cleanup(nodes.Kill)
		address = nodes.URL()
	} else {
		address = strings.TrimPrefix(harness.StartBroker(t, crash.Kafka).URL(), "kafka://")
	}
	serveIn(t, dir, "TIMER_BROKER=kafka", "TIMER_BROKER_URL=kafka://"+address)
	client := kafkaWire{address}.client(t)
	admin := kadm.NewClient(client)
	return site{
		address: address,
		version: version,
		publish: func(t *testing.T, body string) {
			t.Helper()
			r := &kgo.Record{Topic: "service.events", Key: []byte("acme.order"), Value: []byte(body)}
			harness.Must(t, client.ProduceSync(t.Context(), r).FirstErr())
		},
		unacked: func(t *testing.T, group string) int {
			t.Helper()
			lags, err := admin.Lag(t.Context(), group)
			if err == nil {
				err = lags.Error()
			}
			harness.Must(t, err)
			return int(lags[group].Lag.Total())
		},
	}
}
