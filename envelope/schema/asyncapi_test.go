package schema_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/kafka"
	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/broker/rabbitmq"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/envelope/schema"
	"github.com/event-service-agent/timer-service/timer"
)

// brokers are the brokers that have clients outside the process.
var brokers = []struct {
	name, host, protocol string
	routing              broker.Routing
	receipts             string
	about                string
}{
	{"nats", "127.0.0.1:4222", "nats", nats.DefaultRouting(), nats.DefaultReceipts, "NATS with JetStream, stream svc. The id of an event or a dead letter is in the header Nats-Msg-Id, too."},
	{"kafka", "127.0.0.1:9092", "kafka", kafka.DefaultRouting(), kafka.DefaultReceipts, "Apache Kafka."},
	{"rabbitmq", "127.0.0.1:5672", "amqp", rabbitmq.DefaultRouting(), rabbitmq.DefaultReceipts, "RabbitMQ. The addresses are queues. Type, correlation id, content type and id are in the properties of AMQP, too."},
}

// asyncAPI returns the document, which describes the service: it receives commands
// and sends events and dead letters.
func asyncAPI(t *testing.T) object {
	t.Helper()
	components := schemas(t)
	servers, channels, operations := object{}, object{}, object{}
	for _, b := range brokers {
		servers[b.name] = object{"host": b.host, "protocol": b.protocol, "description": b.about}
		for _, c := range []struct {
			name, action, address, about string
			messages                     []string
		}{
			{"Commands", "receive", b.routing.Commands, "Commands to the service.", both(envelope.TypeScheduleTimer, envelope.TypeScheduleTimers, envelope.TypeRescheduleTimers, envelope.TypeCancelTimer, envelope.TypeCancelTimers)},
			{"Events", "send", b.routing.Events, "Events of the service.", both(envelope.TypeDueTimeReached, envelope.TypeTimerExpired)},
			{"Receipts", "send", b.receipts, "What became of commands, if the setting receipts is on.", both(string(timer.TimerScheduled), string(timer.TimerCanceled), string(timer.TimerIgnored), string(timer.TimerRejected))},
			{"DeadLetters", "send", b.routing.DeadLetters, "Messages that were refused.", []string{envelope.TypeDeadLetter}},
		} {
			id := b.name + c.name
			channels[id] = channel(b.protocol, b.name, c.address, c.about, c.messages)
			operations[c.action+strings.ToUpper(id[:1])+id[1:]] = object{"action": c.action, "channel": ref("channels/" + id)}
		}
	}
	messages := object{envelope.TypeDeadLetter: object{
		"name": envelope.TypeDeadLetter, "title": "A message that was refused",
		"description": "The body is that of the original, byte for byte, whatever it is.",
		"headers":     ref("components/schemas/DeadLetterHeaders"),
		"bindings":    kafkaKey("The messageId."),
	}}
	for _, k := range kinds {
		for _, name := range both(k.name) {
			messages[name] = messageOf(k, name, components[name])
		}
	}
	plain := make(object)
	for name, s := range components {
		s = maps.Clone(s)
		delete(s, "examples") // the messages have them
		plain[name] = s
	}
	return object{
		"asyncapi": "3.0.0",
		"info": object{
			"title":   "timer-service",
			"version": schema.Version,
			"description": "Asks for DueTimeReached events at a time, for many tenants. Delivery is at least once: drop repetitions by id. " +
				"The names of topics are the defaults. Rules that a schema can't express are in its $comment; a message that breaks one is a dead letter with that reason.",
			"license":      object{"name": "MIT"},
			"externalDocs": object{"url": "https://github.com/event-service-agent/timer-service/blob/main/docs/messages.md"},
		},
		"defaultContentType": "application/json",
		"servers":            servers,
		"channels":           channels,
		"operations":         operations,
		"components":         object{"schemas": plain, "messages": messages},
	}
}

// both returns the names of messages as envelopes and as CloudEvents.
func both(kinds ...string) []string {
	names := slices.Clone(kinds)
	for _, kind := range kinds {
		names = append(names, kind+"CloudEvent")
	}
	return names
}

func ref(path string) object { return object{"$ref": "#/" + path} }

func channel(protocol, server, address, about string, messages []string) object {
	c := object{"address": address, "description": about, "servers": []any{ref("servers/" + server)}}
	listed := make(object)
	for _, name := range messages {
		listed[name] = ref("components/messages/" + name)
	}
	c["messages"] = listed
	if strings.Contains(address, "{tenant}") {
		c["parameters"] = object{"tenant": object{"description": "The tenant; of dead letters _ if no valid one is named.", "location": "$message.header#/" + envelope.HeaderTenantID}}
	}
	if protocol == "amqp" {
		c["bindings"] = object{"amqp": object{
			"is": "queue", "bindingVersion": "0.3.0",
			"queue": object{"name": address, "durable": true, "exclusive": false, "autoDelete": false},
		}}
	}
	return c
}

func messageOf(k kind, name string, s object) object {
	m := object{
		"name": name, "title": k.about, "contentType": "application/json",
		"payload":       ref("components/schemas/" + name),
		"headers":       ref("components/schemas/CommandHeaders"),
		"correlationId": object{"location": "$message.payload#/correlationId"},
		"examples":      []any{object{"payload": s["examples"].([]any)[0]}},
	}
	if name != k.name {
		m["contentType"] = envelope.ContentTypeCloudEvents
		m["correlationId"] = object{"location": "$message.payload#/correlationid"}
	}
	if k.isEvent() || k.isReceipt() {
		m["headers"] = ref("components/schemas/" + map[bool]string{true: "ReceiptHeaders", false: "EventHeaders"}[k.isReceipt()])
		m["bindings"] = kafkaKey("tenantId.serviceCallId")
	}
	return m
}

func kafkaKey(about string) object {
	return object{"kafka": object{"key": object{"type": "string", "description": about}, "bindingVersion": "0.5.0"}}
}
