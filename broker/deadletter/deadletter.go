// Package deadletter lets people list dead letters, replay them when they can be
// handled now, and discard the rest.
//
//	commands ──► handlers ──invalid──► dead letters of the tenant
//	    ▲                                  │
//	    └──────────── Replay ◄─────────────┤ List: nothing changes
//	                                       └──► Discard: removed for good
//
// # Promises
//
//   - A dead letter is removed only after its replay is durable. If the process is killed
//     in between, the dead letter stays, and is replayed once more: under the same id,
//     which most brokers drop, and as the same version of its timer, which changes
//     nothing.
//   - A replay publishes the original body. Of the failure metadata it keeps two headers:
//     how often the message was replayed, and when it first failed. If it fails again the
//     next dead letter counts on from there; after [MaxReplays] it stays.
//   - A dead letter goes to the commands of its own tenant, whatever its headers say.
//   - Anyone may have written a dead letter. Malformed headers count as absent, and no
//     dead letter ends a visit to the others.
package deadletter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/timer"
)

// MaxReplays is how often a message is replayed. A message that has failed four times in
// all needs a person, not a fourth replay.
const MaxReplays = 3

// removeTimeout is the longest time for marking and for removing a dead letter that was replayed,
// if the context ends meanwhile.
const removeTimeout = 5 * time.Second

// A Broker is the part of a [broker.Broker] that a [Service] needs.
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

// Outcomes of a dead letter.
const (
	Replayed  = "replayed"  // published again, and removed
	Discarded = "discarded" // removed
	Refused   = "refused"   // left where it is
)

// A Result is the outcome of a dead letter.
type Result struct {
	Message Message
	Did     string // one of [Replayed], [Discarded], [Refused]
	Topic   string // topic that it was replayed to
	ID      string // id of the message that was published
	Why     error  // why it was refused; nil if it was not
}

// A Summary is the outcome of a call.
type Summary struct {
	Done    int // dead letters listed, replayed or discarded
	Refused int // dead letters that were left where they are
}

// List calls show with each dead letter that fits the filter, oldest first, and changes
// nothing. It ends at the first error, of ctx, the broker or show, and returns it.
func (s *Service) List(ctx context.Context, f Filter, show func(Message) error) (Summary, error) {
	return s.each(ctx, f, false, nil, func(m Message) (Result, error) {
		return Result{Message: m}, show(m)
	})
}

// Replay publishes the originals of the dead letters that fit the filter once more, each
// to the commands of its tenant, then a [Mark], so that a recovery reads the replay in place of
// the original, and then removes the dead letter. A dead letter gets the
// result [Refused] if it was replayed [MaxReplays] times, if its body was cut, if no
// topic fits it, or if the broker refuses the message. Replay ends at the first other
// error, of ctx or the broker, and returns it, together with the summary until then. Tell
// is called once for each dead letter that fits, and may be nil.
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
		marking, stop := pause.Outlive(ctx, 0, removeTimeout)
		defer stop()
		if err := leaveOriginal(marking, s.broker, m, MarkReplayed); err != nil {
			return Result{}, fmt.Errorf("replay %s, which stays though it was published: %w", timer.Quote(m.ID), err)
		}
		return done, nil
	})
}

// Discard removes the dead letters that fit the filter. Before, it publishes a [Mark] for
// each, so that the recovery of a lost database does not take the original for an
// accepted command. It ends at the first error, of ctx or the broker, and returns it,
// together with the summary until then. Tell is called once for each dead letter that
// fits, and may be nil.
func (s *Service) Discard(ctx context.Context, f Filter, tell func(Result)) (Summary, error) {
	return s.each(ctx, f, true, tell, func(m Message) (Result, error) {
		if err := leaveOriginal(ctx, s.broker, m, MarkDiscarded); err != nil {
			return Result{}, fmt.Errorf("discard %s, which stays: %w", timer.Quote(m.ID), err)
		}
		return Result{Message: m, Did: Discarded}, nil
	})
}

// destination returns the topic to which a dead letter is replayed, or why there is none.
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
	// Each topic belongs to a tenant, and this dead letter has none, so it goes back to the
	// topic that it came from. That topic can't be the topic of a valid tenant, even if the
	// header says so, nor a topic that the service does not subscribe to.
	named, ok := s.routing.TenantOf(m.Topic)
	if !ok || named.Validate() == nil || named == "" || strings.ContainsAny(string(named), ".*>#/ \t\r\n") {
		return "", fmt.Errorf("it names no tenant, and its topic %s is not a topic of commands", timer.Quote(m.Topic))
	}
	return m.Topic, nil
}

// errLimit ends a visit at the limit of the filter.
var errLimit = errors.New("the limit is reached")

// each calls do with each dead letter that fits, and removes it if do replays or discards
// it. It counts and reports a result only when the dead letter is known to be
// removed: when the visit goes on, or has ended.
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
