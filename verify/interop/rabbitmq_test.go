package interop_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"
)

// A rabbitMQ is a service on a RabbitMQ server, with names of its own.
type rabbitMQ struct{ url, exchange, commands, events string }

// needRabbitMQ returns the URL of a server.
func needRabbitMQ(t *testing.T) string {
	t.Helper()
	url := os.Getenv("TIMER_TEST_RABBITMQ")
	if url == "" {
		missing(t, "TIMER_TEST_RABBITMQ is not the URL of a RabbitMQ server")
	}
	return url
}

// serveRabbitMQIn runs the service on RabbitMQ until the test ends, with a folder for the
// database, for a tenant whose queue of events there will be when it does.
func serveRabbitMQIn(t *testing.T, dir, tenant string) rabbitMQ {
	t.Helper()
	prefix := "interop-" + strings.ReplaceAll(uuid.NewString(), "-", "")[:12]
	r := rabbitMQ{needRabbitMQ(t), prefix + ".direct", prefix + ".commands", prefix + ".{tenant}.q"}
	queues := []string{r.commands, r.commands + ".owner", prefix + "." + tenant + ".q", prefix + "." + tenant + ".dlq", prefix + "._.dlq"}
	for _, delay := range []string{"2s", "6s", "30s", "2m", "10m"} {
		queues = append(queues, r.commands+".retry."+delay)
	}
	forget(t, r.url, r.exchange, queues...)
	serveIn(t, dir, "TIMER_BROKER=rabbitmq", "TIMER_BROKER_URL="+r.url, "TIMER_RABBITMQ_EXCHANGE="+r.exchange,
		"TIMER_COMMANDS_TOPIC="+r.commands, "TIMER_EVENTS_TOPIC="+r.events, "TIMER_DEAD_LETTERS_TOPIC="+prefix+".{tenant}.dlq")
	return r
}

// forget removes an exchange and queues when the service has ended.
func forget(t *testing.T, url, exchange string, queues ...string) {
	t.Helper()
	t.Cleanup(func() {
		conn, err := amqp.Dial(url)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		ch, err := conn.Channel()
		if err != nil {
			t.Error(err)
			return
		}
		for _, queue := range queues {
			if _, err := ch.QueueDelete(queue, false, false, false); err != nil {
				t.Errorf("remove queue %s: %v", queue, err)
			}
		}
		if err := ch.ExchangeDelete(exchange, false, false); err != nil {
			t.Errorf("remove exchange %s: %v", exchange, err)
		}
	})
}
