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

// A shelf is a broker that keeps dead letters and what is published, and goes
// away when a test wants it to.
type shelf struct {
	routing   broker.Routing
	letters   []*message.Message
	published []sent
	publish   func(topic string, msg *message.Message) error // may be nil
	remove    func(ctx context.Context) error                // may be nil
}

type sent struct {
	topic string
	*message.Message
}

func (s *shelf) Routing() broker.Routing      { return s.routing }
func (s *shelf) Publisher() message.Publisher { return s }
func (s *shelf) Close() error                 { return nil }

func (s *shelf) Publish(topic string, messages ...*message.Message) error {
	for _, m := range messages {
		if s.publish != nil {
			if err := s.publish(topic, m); err != nil {
				return err
			}
		}
		s.published = append(s.published, sent{topic, m})
	}
	return nil
}

func (s *shelf) VisitDeadLetters(ctx context.Context, tenant timer.TenantID, visit func(*message.Message) (bool, error)) error {
	for _, kept := range slices.Clone(s.letters) {
		if whose, _ := s.routing.DeadLetterOf(kept.Metadata.Get(broker.MetaTopic), kept); tenant != "" && whose != tenant {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		remove, err := visit(kept.Copy())
		if err == nil && remove && s.remove != nil {
			err = s.remove(ctx)
		}
		if err != nil {
			return err
		}
		if remove {
			s.letters = slices.DeleteFunc(s.letters, func(m *message.Message) bool { return m == kept })
		}
	}
	return nil
}

// put puts a letter on the shelf: the body of a command of acme, refused at
// noon. Changes are pairs of a header and its value; the value "" takes it away.
func (s *shelf) put(id string, changes ...string) *shelf {
	m := message.NewMessage(id, []byte(`{"letter":"`+id+`"}`))
	maps.Copy(m.Metadata, message.Metadata{
		broker.MetaTopic: "svc.acme.dlq", broker.MetaPosition: strconv.Itoa(len(s.letters) + 1),
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
	s.letters = append(s.letters, m)
	return s
}

// left returns the ids of the letters on the shelf.
func (s *shelf) left() []string {
	ids := []string{}
	for _, m := range s.letters {
		ids = append(ids, m.UUID)
	}
	return ids
}

// told collects results by letter, as "did" or "refused: why".
type told map[string]string

func (t told) tell(r deadletter.Result) {
	t[r.Letter.ID] = r.Did
	if r.Why != nil {
		t[r.Letter.ID] += ": " + r.Why.Error()
	}
}

// read returns a letter as it is read.
func read(t *testing.T, s *shelf) deadletter.Letter {
	t.Helper()
	if len(s.letters) != 1 {
		t.Fatalf("%d letters on the shelf", len(s.letters))
	}
	return deadletter.Read(s.routing, s.letters[0])
}

var errDown = errors.New("broker is down")
