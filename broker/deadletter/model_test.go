package deadletter_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/deadletter"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

var (
	noon      = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	shared    = broker.Routing{Commands: "timer.commands", Events: "svc.{tenant}.serviceCall", DeadLetters: "svc.{tenant}.dlq", Wildcard: "*"}
	perTenant = broker.Routing{Commands: "svc.{tenant}.timer", Events: "svc.{tenant}.serviceCall", DeadLetters: "svc.{tenant}.dlq", Wildcard: "*"}
)

// A model is a broker that keeps dead letters and published messages, and goes
// away when a test wants it to.
type model struct {
	routing   broker.Routing
	kept      []*message.Message
	published []sentMessage
	publish   func(topic string, msg *message.Message) error // may be nil
	remove    func(ctx context.Context) error                // may be nil
	seeks     bool
	visited   int // dead letters
}

type sentMessage struct {
	topic string
	*message.Message
}

func (s *model) Routing() broker.Routing { return s.routing }

// History returns none, so that no marks are left.
func (s *model) History() (broker.History, string) { return nil, "the model keeps nothing" }
func (s *model) Publisher() broker.Publisher       { return s }

func (s *model) Publish(ctx context.Context, messages ...broker.Message) []error {
	results := make([]error, len(messages))
	for i, m := range messages {
		if results[i] = ctx.Err(); results[i] == nil && s.publish != nil {
			results[i] = s.publish(m.Topic, m.Message)
		}
		if results[i] == nil {
			s.published = append(s.published, sentMessage{m.Topic, m.Message})
		}
	}
	return results
}

// VisitDeadLetters visits the dead letters of all tenants, as a broker does where they share a
// topic.
func (s *model) VisitDeadLetters(ctx context.Context, _ timer.TenantID, from string, visit broker.DeadLetterVisit) error {
	first := 0
	if s.seeks && from != "" {
		first = slices.IndexFunc(s.kept, func(m *message.Message) bool {
			at, _ := strconv.Atoi(m.Metadata.Get(broker.MetaPosition))
			begin, _ := strconv.Atoi(from)
			return at >= begin
		})
		if first < 0 {
			return nil
		}
	}
	for part := range slices.Chunk(slices.Clone(s.kept[first:]), 3) {
		if err := ctx.Err(); err != nil {
			return err
		}
		batch := make([]*message.Message, len(part))
		for i, kept := range part {
			s.visited++
			if batch[i] = kept.Copy(); s.seeks {
				batch[i].Metadata[broker.MetaSeek] = kept.Metadata.Get(broker.MetaPosition)
			}
		}
		removed, visitErr := visit(batch)
		if len(removed) > 0 && s.remove != nil {
			if err := s.remove(ctx); err != nil {
				return err
			}
		}
		for i, kept := range part {
			if slices.Contains(removed, batch[i]) {
				s.kept = slices.DeleteFunc(s.kept, func(m *message.Message) bool { return m == kept })
			}
		}
		if visitErr != nil {
			return visitErr
		}
	}
	return nil
}

// put puts a dead letter there: the body of a command of acme, refused at
// noon. Changes are pairs of a header and its value; the value "" takes it away.
func (s *model) put(id string, changes ...string) *model {
	m := message.NewMessage(id, []byte(`{"deadLetter":"`+id+`"}`))
	maps.Copy(m.Metadata, message.Metadata{
		broker.MetaTopic: "svc.acme.dlq", broker.MetaPosition: strconv.Itoa(len(s.kept) + 1),
		"type": "DeadLetter", "tenantId": "acme", "messageId": id,
		"deadLetterReason": "beyond_horizon", "deadLetterDetail": "too late", "deadLetterTopic": s.routing.CommandsOf("acme"),
		"deadLetterPosition": "7", "deadLetterOriginalId": "command-" + id,
		"deadLetterFirstAt": envelope.FormatTime(noon.Add(-time.Hour)), "deadLetterLastAt": envelope.FormatTime(noon),
		"deadLetterCount": "1", "deadLetterReplays": "0",
	})
	for i := 0; i < len(changes); i += 2 {
		m.Metadata.Set(changes[i], changes[i+1])
		if changes[i+1] == "" {
			delete(m.Metadata, changes[i])
		}
	}
	s.kept = append(s.kept, m)
	return s
}

// left returns the ids of the dead letters that are left.
func (s *model) left() []string {
	ids := []string{}
	for _, m := range s.kept {
		ids = append(ids, m.UUID)
	}
	return ids
}

// outcomes collects results by dead letter, as "did" or "refused: why".
type outcomes map[string]string

func (t outcomes) tell(r deadletter.Result) {
	t[r.Message.ID] = r.Did
	if r.Why != nil {
		t[r.Message.ID] += ": " + r.Why.Error()
	}
}

// read returns the one dead letter there is.
func read(t *testing.T, s *model) deadletter.Message {
	t.Helper()
	if len(s.kept) != 1 {
		t.Fatalf("%d dead letters", len(s.kept))
	}
	return deadletter.Read(s.routing, s.kept[0])
}

var errDown = errors.New("broker is down")
