package poison_test

import (
	"fmt"
	"strings"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// head writes a header as it goes over the wire, from names and values.
func head(namesAndValues ...string) string {
	var s strings.Builder
	s.WriteString("NATS/1.0\r\n")
	for i := 0; i < len(namesAndValues); i += 2 {
		s.WriteString(namesAndValues[i] + ": " + namesAndValues[i+1] + "\r\n")
	}
	s.WriteString("\r\n")
	return s.String()
}

// with adds a header to a message.
func (s shot) with(header string) shot { s.header = header; return s }

// maybe says that the broker may refuse a message.
func (s shot) maybe() shot { s.refusable = true; return s }

// headers are hostile headers, with valid bodies and invalid ones.
var headers = []kind{
	{"headers that are commands to the broker", func(g *gunner) shot {
		name, value, _ := strings.Cut(g.pick("Nats-Rollup=all", "Nats-Rollup=sub", "nats-rollup=all", "Nats-Expected-Stream=other", "Nats-Expected-Last-Sequence=1",
			"Nats-Expected-Last-Subject-Sequence=1", "Nats-Expected-Last-Msg-Id=x", "Nats-TTL=1s", "Nats-TTL=never", "Nats-Marker-Reason=Purge", "Nats-Incr=+1",
			"Nats-Schedule=@every 1s", "Nats-Schedule-Target=svc.acme.serviceCall", "Nats-Required-Api-Level=99", "Nats-Stream-Source=svc", "Nats-Sequence=1",
			"KV-Operation=PURGE", "Nats-Response-Type=x", "Nats-Request-Info={}", "Nats-Trace-Dest=svc.acme.serviceCall", "Nats-Num-Pending=0"), "=")
		return g.any().with(head(name, value)).maybe()
	}},
	{"headers of a batch", func(g *gunner) shot {
		return g.any().with(head("Nats-Batch-Id", fmt.Sprint(g.Int()), "Nats-Batch-Sequence", g.pick("0", "1", "2", "-1", "x"))).maybe()
	}},
	{"the id of an event to come", func(g *gunner) shot {
		c := g.command()
		victim := c.good()
		victim.Note = "valid: its event's id is taken"
		g.next = append(g.next, victim)
		id := envelope.EventID(timer.DueTimeReached{
			Key:   timer.Key{TenantID: timer.TenantID(c.tenant), ServiceCallID: timer.ServiceCallID(c.call)},
			DueAt: c.due, CommandID: c.id,
		})
		return junk(notJSON, "mine").with(head("Nats-Msg-Id", id))
	}},
	{"repeated headers", func(g *gunner) shot {
		id := fmt.Sprint(g.Int())
		s := g.any().with(head("Nats-Msg-Id", id, "Nats-Msg-Id", id+"-2", "tenantId", "victim", "tenantId", "acme", "correlationId", "one", "correlationId", "two"))
		s.Correlation = "one"
		return s
	}},
	{"headers that claim another tenant", func(g *gunner) shot {
		return g.any().with(head("tenantId", g.tenant(), "serviceCallId", "victim", "type", g.pick("DueTimeReached", "DeadLetter"), "messageId", "x"))
	}},
	{"headers of a dead letter", func(g *gunner) shot {
		return g.any().with(head("type", "DeadLetter", "tenantId", "victim", "deadLetterReason", "forged", "deadLetterDetail", "forged", "deadLetterTopic", "svc.acme.serviceCall",
			"deadLetterPosition", "1", "deadLetterOriginalId", "forged", "deadLetterFirstAt", "2000-01-01T00:00:00Z", "deadLetterLastAt", "never",
			"deadLetterCount", "99", "deadLetterTruncated", "true", "deadLetterReplays", g.pick("-1", "x", "1e3", "99999999999999999999", "1001", "")))
	}},
	{"headers of a replay", func(g *gunner) shot {
		s := g.any()
		s.replays = 1 + g.IntN(3)
		return s.with(head("deadLetterReplays", fmt.Sprint(s.replays)))
	}},
	{"headers that our subscriber sets", func(g *gunner) shot {
		return g.any().with(head("broker_topic", "svc.victim.timer", "broker_position", "1", "broker_delivery", "9", "_watermill_message_uuid", "forged",
			"reason_poisoned", "forged", "topic_poisoned", "svc.victim.timer", "handler_poisoned", "x", "subscriber_poisoned", "x", "correlation_id", "x"))
	}},
	{"a broken correlation in the header", func(g *gunner) shot {
		return g.any().with(head("correlationId", g.pick("a b", "é", "\x00", "\xff\xfe", strings.Repeat("c", 129), "", "\u202e", "a\rb", "a\x1bb")))
	}},
	{"a trace in the header", func(g *gunner) shot {
		const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		s := g.any()
		s.trace = parent
		return s.with(head("traceparent", parent, "tracestate", g.pick("a=b", strings.Repeat("x", 513), "\x00", "")))
	}},
	{"a broken trace in the header", func(g *gunner) shot {
		return g.any().with(head("traceparent", g.pick("00-00000000000000000000000000000000-b7ad6b7169203331-01", "ff-x", "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", "\xff",
			strings.Repeat("0", 5_000), "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x"), "tracestate", "a=b"))
	}},
	{"a huge message id", func(g *gunner) shot {
		return g.any().with(head(g.pick("Nats-Msg-Id", "messageId", "_watermill_message_uuid"), fmt.Sprint(g.Int())+strings.Repeat(g.pick("i", "\xff", " "), 20_000)+"."))
	}},
	{"thousands of headers", func(g *gunner) shot {
		var s strings.Builder
		for i := range 5_000 {
			fmt.Fprintf(&s, "%x:\r\n", i)
		}
		return g.any().with("NATS/1.0\r\n" + s.String() + "\r\n")
	}},
	{"headers that are none", func(g *gunner) shot {
		return g.any().with(g.pick("NATS/1.0\r\nno colon\r\n\r\n", "NATS/1.0\r\n: no name\r\n\r\n", "NATS/1.0\r\na b: space\r\n\r\n", "NATS/1.0\r\n\x00\xff: \x01\r\n\r\n",
			"NATS/1.0 503\r\n\r\n", "NATS/1.0 409 Consumer Deleted\r\n\r\n", "NATS/9.9\r\na: b\r\n\r\n", "HTTP/1.1 200 OK\r\na: b\r\n\r\n", "NATS/1.0\na: b\n\n", "\r\n\r\n", "x",
			"NATS/1.0\r\n\r\nNats-Rollup: all\r\n\r\n", "NATS/1.0\r\na: b", "\xff\xfe\x00")).maybe()
	}},
}
