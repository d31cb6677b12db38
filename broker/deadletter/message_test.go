package deadletter_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/deadletter"
	"github.com/event-service-agent/timer-service/timer"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestReadsWhatTheServiceWrites(t *testing.T) {
	t.Parallel()
	s := &model{routing: shared}
	s.put("a", "deadLetterCount", "3", "deadLetterReplays", "2", "deadLetterTruncated", "true",
		"correlationId", "req-7", "traceparent", parent, "tracestate", "a=b")
	want := deadletter.Message{
		ID: "a", Tenant: "acme", Reason: timer.ReasonBeyondHorizon, Detail: "too late",
		Topic: "timer.commands", Position: "7", OriginalID: "command-a",
		FirstAt: noon.Add(-time.Hour), LastAt: noon, Count: 3, Replays: 2, Truncated: true,
		CorrelationID: "req-7", Trace: timer.Trace{Parent: parent, State: "a=b"}, Body: []byte(`{"deadLetter":"a"}`),
	}
	if diff := cmp.Diff(want, read(t, s)); diff != "" {
		t.Errorf("dead letter (-want +got):\n%s", diff)
	}
}

// Anyone who may write to a topic can put anything there.
func TestReadsWhatOthersWrite(t *testing.T) {
	t.Parallel()
	bare := message.NewMessage("uuid", nil)
	if diff := cmp.Diff(deadletter.Message{ID: "uuid", Tenant: timer.NoTenant, Count: 1}, deadletter.Read(shared, bare)); diff != "" {
		t.Errorf("a message without anything (-want +got):\n%s", diff)
	}
	s := &model{routing: shared}
	s.put("x", "messageId", "a b\x1b[31m", "tenantId", "victim", "deadLetterFirstAt", "yesterday", "deadLetterLastAt", "2026-01-01",
		"deadLetterCount", "-5", "deadLetterReplays", "99999999999999999999", "deadLetterTruncated", "perhaps",
		"correlationId", "a b", "traceparent", "00-x", "tracestate", "a=b")
	got := read(t, s)
	if got.ID == "" || got.ID == "x" || strings.Contains(got.ID, " ") {
		t.Errorf("the id is %q, want one that follows from its position", got.ID)
	}
	if again := read(t, s); again.ID != got.ID {
		t.Errorf("the id is %s, and then %s", got.ID, again.ID)
	}
	got.ID = ""
	want := deadletter.Message{
		Tenant: "acme", Reason: timer.ReasonBeyondHorizon, Detail: "too late", Topic: "timer.commands", Position: "7", OriginalID: "command-x",
		Count: 1, Truncated: true, Body: []byte(`{"deadLetter":"x"}`),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("dead letter (-want +got):\n%s", diff)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("svc.acme.dlq", "id", "3", "2026-01-01T12:00:00.000Z", "true", []byte("{}"))
	f.Add("", "\x00", "-1", "x", "", []byte(nil))
	f.Fuzz(func(t *testing.T, topic, id, number, at, cut string, body []byte) {
		m := message.NewMessage("uuid", body)
		for name, value := range map[string]string{
			broker.MetaTopic: topic, broker.MetaPosition: number, "messageId": id, "tenantId": id, "deadLetterReason": at, "deadLetterTopic": topic,
			"deadLetterReplays": number, "deadLetterCount": number, "deadLetterFirstAt": at, "deadLetterLastAt": at, "deadLetterTruncated": cut,
		} {
			m.Metadata.Set(name, value)
		}
		for _, routing := range []broker.Routing{shared, perTenant} {
			l := deadletter.Read(routing, m)
			if l.ID == "" || l.Count < 1 || l.Replays < 0 || l.Tenant != timer.NoTenant && l.Tenant.Validate() != nil {
				t.Errorf("dead letter %+v", l)
			}
			s := &model{routing: routing, kept: []*message.Message{m}}
			if _, err := deadletter.New(s).Replay(t.Context(), deadletter.Filter{}, nil); err != nil {
				t.Fatal(err)
			}
			for _, p := range s.published {
				if whose, named := routing.TenantOf(p.topic); named && whose.Validate() == nil && whose != l.Tenant {
					t.Errorf("a dead letter of %s was replayed to %s", l.Tenant, p.topic)
				}
			}
			if len(s.published)+len(s.kept) != 1 {
				t.Errorf("%d published and %d left, want one in all", len(s.published), len(s.kept))
			}
		}
	})
}
