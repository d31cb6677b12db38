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
)

// openNATS starts three servers.
func openNATS(t *testing.T, dir string) site {
	t.Helper()
	servers := t.TempDir()
	program, err := natsd.Build(t.Context(), servers)
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := natsd.Start(t.Context(), program, servers, "")
	if err != nil {
		t.Fatal(err)
	}
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
			if err != nil {
				t.Fatal(err)
			}
			info := consumer.CachedInfo()
			return int(info.NumPending) + info.NumAckPending
		},
	}
}

// openRabbitMQ starts a server.
func openRabbitMQ(t *testing.T, dir string) site {
	t.Helper()
	url := startBroker(t, crash.RabbitMQ)
	serveIn(t, dir, "TIMER_BROKER=rabbitmq", "TIMER_BROKER_URL="+url)
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // nothing is under way
	channel, err := conn.Channel()
	if err == nil {
		err = channel.Confirm(false)
	}
	if err != nil {
		t.Fatal(err)
	}
	version, _ := conn.Properties["version"].(string)
	return site{
		address: url,
		version: version,
		publish: func(t *testing.T, body string) {
			t.Helper()
			confirm, err := channel.PublishWithDeferredConfirmWithContext(t.Context(), "svc.direct", "svc.acme.q", true, false, amqp.Publishing{Body: []byte(body)})
			if err == nil {
				_, err = confirm.WaitContext(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
		},
		onlyWaiting: true,
		unacked: func(t *testing.T, _ string) int {
			t.Helper()
			q, err := channel.QueueDeclarePassive("svc.acme.q", true, false, false, false, nil)
			if err != nil {
				t.Fatal(err)
			}
			return q.Messages + 2*q.Consumers // until the broker notices that the program has ended, it keeps what that has not acked
		},
	}
}

// openKafka uses the server of $TIMER_TEST_KAFKA, of which it deletes what another test left
// behind, or starts the fake of franz-go.
func openKafka(t *testing.T, dir string) site {
	t.Helper()
	address := os.Getenv("TIMER_TEST_KAFKA")
	if address == "" && os.Getenv("TIMER_TEST_REQUIRE") != "" {
		t.Fatal("TIMER_TEST_KAFKA is not set")
	}
	fake := ""
	if address == "" {
		address, fake = strings.TrimPrefix(startBroker(t, crash.Kafka), "kafka://"), " of franz-go's fake, NO KAFKA WAS TESTED"
	}
	admin := kadm.NewClient(kafkaWire{address}.client(t))
	empty(t, admin)
	serveIn(t, dir, "TIMER_BROKER=kafka", "TIMER_BROKER_URL=kafka://"+address)
	versions, err := admin.ApiVersions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	version := ""
	for _, v := range versions.Sorted() {
		version = v.VersionGuess() + fake
	}
	client := kafkaWire{address}.client(t)
	return site{
		address: address,
		version: version,
		publish: func(t *testing.T, body string) {
			t.Helper()
			r := &kgo.Record{Topic: "service.events", Key: []byte("acme.order"), Value: []byte(body)}
			if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		},
		unacked: func(t *testing.T, group string) int {
			t.Helper()
			lags, err := admin.Lag(t.Context(), group)
			if err == nil {
				err = lags.Error()
			}
			if err != nil {
				t.Fatal(err)
			}
			return int(lags[group].Lag.Total())
		},
	}
}

// empty deletes the topics and groups that the service and the programs use.
func empty(t *testing.T, admin *kadm.Client) {
	t.Helper()
	topics, err := admin.ListTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	groups, err := admin.ListGroups(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range topics.Names() {
		if name == "timer.commands" || strings.HasPrefix(name, "service.") {
			if _, err := admin.DeleteTopics(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range groups.Groups() {
		if strings.HasPrefix(name, "orders-") || strings.HasPrefix(name, "timer-service") {
			if _, err := admin.DeleteGroups(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
	}
}
