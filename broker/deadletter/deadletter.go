// Package deadletter is what people do with dead letters: list them, replay what
// can be handled now, discard the rest.
//
//	commands ──► handlers ──invalid──► dead letters of the tenant
//	    ▲                                  │
//	    └──────────── Replay ◄─────────────┤ List: nothing changes
//	                                       └──► Discard: removed for good
//
// # Promises
//
//   - A dead letter is removed only after its replay is durable. A process that is
//     killed in between leaves it, and the next one replays it once more: under the
//     same id, which most brokers drop, and as the same version of its timer, which
//     changes nothing.
//   - What is replayed is the original body without the failure metadata, but for
//     two headers: how often it was replayed, and when it first failed. If it fails
//     again the next dead letter counts on from there; after [MaxReplays] it stays.
//   - A dead letter goes to the commands of its own tenant, whatever its headers say.
//   - Anyone may have written a dead letter. Headers that make no sense count as
//     absent, and no dead letter ends a visit to the others.
package deadletter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/timer"
)

// MaxReplays is how often a message is replayed. What failed four times in all
// needs a person, not a fourth replay.
const MaxReplays = 3

// removeTimeout is how long it may take to remove a dead letter that was replayed
// when the context has ended meanwhile.
const removeTimeout = 5 * time.Second

// A Broker is what a [Service] needs of a [broker.Broker].
type Broker interface {
	broker.DeadLetters
	Publisher() broker.Publisher
	Routing() broker.Routing
	History() (broker.History, string)
}

// A Service lists, replays and discards the dead letters of a broker, which must
// be running. It is safe for concurrent use; two calls that replay the same dead
// letters may both do so.
type Service struct {
	broker  Broker
	routing broker.Routing
}

// New returns a Service.
func New(b Broker) *Service { return &Service{broker: b, routing: b.Routing()} }

// What was done with a dead letter.
const (
	Replayed  = "replayed"  // published again, and removed
	Discarded = "discarded" // removed
	Refused   = "refused"   // left where it is
)

// A Result is what was done with a dead letter, or would be.
type Result struct {
	Message Message
	Did     string // one of [Replayed], [Discarded], [Refused]
	Topic   string // where it was replayed to
	ID      string // of the message it was replayed as
	Why     error  // why it was refused; else nil
}

// A Summary is what a call did altogether.
type Summary struct {
	Done    int // dead letters listed, replayed or discarded
	Refused int // dead letters that were left where they are
}

// List calls show with each dead letter that fits, oldest first. Nothing changes.
// It ends at the first error, of ctx, the broker or show, and returns it.
func (s *Service) List(ctx context.Context, f Filter, show func(Message) error) (Summary, error) {
	return s.each(ctx, f, false, nil, func(m Message) (Result, error) {
		return Result{Message: m}, show(m)
	})
}

// Replay publishes the originals of the dead letters that fit once more, each to
// the commands of its tenant, and then removes the dead letter. Those that can't
// be replayed have the result [Refused]: those that were replayed [MaxReplays]
// times, those whose body was cut, those without a topic to go to, and those that
// the broker refuses. It ends at the first other error, of ctx or the broker, and
// returns it, together with what was done until then. Tell is called once for each dead
// letter that fits, and may be nil.
func (s *Service) Replay(ctx context.Context, f Filter, tell func(Result)) (Summary, error) {
	return s.each(ctx, f, true, tell, func(m Message) (Result, error) {
		topic, err := s.destination(m)
		if err != nil {
			return Result{Message: m, Did: Refused, Why: err}, nil
		}
		msg := m.replay()
		done := Result{Message: m, Did: Replayed, Topic: topic, ID: msg.UUID}
		switch err := s.broker.Publisher().Publish(ctx, broker.Message{Topic: topic, Message: msg})[0]; {
		case errors.Is(err, broker.ErrRefused):
			return Result{Message: m, Did: Refused, Why: err}, nil
		case err != nil:
			return Result{}, fmt.Errorf("replay %s, which stays: %w", timer.Quote(m.ID), err)
		}
		return done, nil
	})
}

// Discard removes the dead letters that fit. Each leaves a [Mark] before, so that a lost
// database does not take its original for a command that was accepted. It ends at the first error, of ctx
// or the broker, and returns it, together with what was done until then. Tell is called
// once for each dead letter that fits, and may be nil.
func (s *Service) Discard(ctx context.Context, f Filter, tell func(Result)) (Summary, error) {
	return s.each(ctx, f, true, tell, func(m Message) (Result, error) {
		if m.Position != "" {
			if err := Leave(ctx, s.broker, m.Tenant, MarkDiscarded, map[string]string{
				envelope.HeaderDeadLetterTopic: m.Topic, envelope.HeaderDeadLetterPosition: m.Position, envelope.HeaderDeadLetterOriginalID: m.OriginalID,
			}); err != nil {
				return Result{}, fmt.Errorf("discard %s, which stays: %w", timer.Quote(m.ID), err)
			}
		}
		return Result{Message: m, Did: Discarded}, nil
	})
}

// destination returns the topic to which a dead letter is replayed, or why there is
// none.
func (s *Service) destination(m Message) (string, error) {
	if err := m.Replayable(); err != nil {
		return "", err
	}
	if m.Tenant != timer.NoTenant {
		return s.routing.CommandsOf(m.Tenant), nil
	}
	ofNoTenant := s.routing.CommandsOf(timer.NoTenant)
	if ofNoTenant == s.routing.Commands {
		return ofNoTenant, nil
	}
	// Topics are of tenants, and the dead letter is of none: it goes back to where
	// it came from. It never came from the topic of a valid tenant, whatever it says,
	// nor from one without a subscription.
	named, ok := s.routing.TenantOf(m.Topic)
	if !ok || named.Validate() == nil || named == "" || strings.ContainsAny(string(named), ".*>#/ \t\r\n") {
		return "", fmt.Errorf("it names no tenant, and its topic %s is not a topic of commands", timer.Quote(m.Topic))
	}
	return m.Topic, nil
}

// errLimit ends a visit at the limit of the filter.
var errLimit = errors.New("the limit is reached")

// each calls do with each dead letter that fits, and removes those that it replays
// or discards. A result is counted and reported when it is known that the dead
// letter is removed: when the visit goes on, or has ended.
func (s *Service) each(ctx context.Context, f Filter, change bool, tell func(Result), do func(Message) (Result, error)) (Summary, error) {
	if err := broker.ValidateVisit(f.Tenant); err != nil {
		return Summary{}, err
	}
	count := counter{tell: tell}
	visiting, stop := ctx, context.CancelFunc(func() {})
	if change {
		visiting, stop = pause.Outlive(ctx, 0, removeTimeout)
	}
	defer stop()
	err := s.broker.VisitDeadLetters(visiting, f.Tenant, func(msg *message.Message) (bool, error) {
		count.settle()
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if f.Limit > 0 && count.fitting == f.Limit {
			return false, errLimit
		}
		if MarkOf(msg) != "" {
			return false, nil
		}
		m := Read(s.routing, msg)
		if !f.Fits(m) {
			return false, nil
		}
		did, err := do(m)
		if err != nil {
			return false, err
		}
		remove := change && did.Did != Refused
		count.add(did, remove)
		return remove, nil
	})
	switch {
	case err == nil:
		count.settle()
	case errors.Is(err, errLimit):
		err = nil
	case ctx.Err() != nil:
		err = fmt.Errorf("%w%s", ctx.Err(), count.uncertain())
	default:
		err = fmt.Errorf("%w%s", err, count.uncertain())
	}
	return count.Summary, err
}
