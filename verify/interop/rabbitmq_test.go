package interop_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"
)

func TestNodeSpeaksWithTheServiceOverRabbitMQ(t *testing.T) {
	t.Parallel()
	url := os.Getenv("TIMER_TEST_RABBITMQ")
	if url == "" {
		missing(t, "TIMER_TEST_RABBITMQ is not the URL of a RabbitMQ server")
	}
	node := need(t, "node")
	dir := install(t, need(t, "npm"), "rabbitmq")
	prefix := "interop-" + strings.ReplaceAll(uuid.NewString(), "-", "")[:12]
	commands, events, deadLetters := prefix+".commands", prefix+".{tenant}.q", prefix+".{tenant}.dlq"
	forget(t, url, prefix+".direct", commands, prefix+".acme.q", prefix+".acme.dlq", prefix+"._.dlq")
	serve(t, "TIMER_BROKER=rabbitmq", "TIMER_BROKER_URL="+url, "TIMER_RABBITMQ_EXCHANGE="+prefix+".direct",
		"TIMER_COMMANDS_TOPIC="+commands, "TIMER_EVENTS_TOPIC="+events, "TIMER_DEAD_LETTERS_TOPIC="+deadLetters)
	runNode(t, node, dir, url, commands, events, deadLetters)
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
