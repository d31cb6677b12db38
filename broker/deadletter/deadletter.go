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
	"cmp"
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
	listed    = "listed"    // shown
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
	Seen    int // dead letters that were compared with the filter

	// Next is [Filter.After] of the call that goes on, if this one has ended at its limit or with
	// its context; empty if there are no more dead letters.
	Next string
}

// List calls show with each dead letter that fits the filter, oldest first, and changes
// nothing. It ends at the first error, of ctx, the broker or show, and returns it.
func (s *Service) List(ctx context.Context, f Filter, show func(Message) error) (Summary, error) {
	return s.each(ctx, f, false, nil, func(batch []Message) []Result {
		results := make([]Result, 0, len(batch))
		for _, m := range batch {
			err := show(m)
			if results = append(results, Result{Message: m, Did: listed, Why: err}); err != nil {
				results[len(results)-1].Did = ""
				break
			}
		}
		return results
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
	return s.each(ctx, f, true, tell, func(batch []Message) []Result {
		results := make([]Result, len(batch))
		var messages []broker.Message
		var of []*Result // the results of messages
		for i, m := range batch {
			r := &results[i]
			topic, err := s.destination(m)
			if err != nil {
				*r = Result{Message: m, Did: Refused, Why: err}
				continue
			}
			msg := m.replay()
			*r = Result{Message: m, Did: Replayed, Topic: topic, ID: msg.UUID}
			messages, of = append(messages, broker.Message{Topic: topic, Message: msg}), append(of, r)
		}
		for i, err := range s.publish(ctx, messages) {
			switch r := of[i]; {
			case errors.Is(err, broker.ErrRefused):
				*r = Result{Message: r.Message, Did: Refused, Why: err}
			case err != nil:
				*r = Result{Message: r.Message, Why: fmt.Errorf("replay %s, which stays: %w", timer.Quote(r.Message.ID), err)}
			}
		}
		marking, stop := pause.Outlive(ctx, 0, removeTimeout)
		defer stop()
		s.mark(marking, results, MarkReplayed, "replay %s, which stays though it was published: %w")
		return results
	})
}

// Discard removes the dead letters that fit the filter. Before, it publishes a [Mark] for
// each, so that the recovery of a lost database does not take the original for an
// accepted command. It ends at the first error, of ctx or the broker, and returns it,
// together with the summary until then. Tell is called once for each dead letter that
// fits, and may be nil.
func (s *Service) Discard(ctx context.Context, f Filter, tell func(Result)) (Summary, error) {
	return s.each(ctx, f, true, tell, func(batch []Message) []Result {
		results := make([]Result, len(batch))
		for i, m := range batch {
			results[i] = Result{Message: m, Did: Discarded}
		}
		s.mark(ctx, results, MarkDiscarded, "discard %s, which stays: %w")
		return results
	})
}

// mark publishes a mark for the original of each dead letter that is replayed or discarded, if
// its position is known and a recovery could read it. If that fails the result is an error.
func (s *Service) mark(ctx context.Context, results []Result, mark Mark, format string) {
	if kept, _ := s.broker.History(); kept == nil {
		return
	}
	var marks []broker.Message
	var of []*Result
	for i, r := range results {
		m := r.Message
		if r.Did == "" || r.Did == Refused || m.Position == "" {
			continue
		}
		marks, of = append(marks, broker.Message{Topic: s.routing.DeadLettersOf(m.Tenant), Message: markOfOriginal(m, mark)}), append(of, &results[i])
	}
	for i, err := range s.publish(ctx, marks) {
		if err != nil {
			*of[i] = Result{Message: of[i].Message, Why: fmt.Errorf(format, timer.Quote(of[i].Message.ID), err)}
		}
	}
}

// publish publishes messages, if there are any.
func (s *Service) publish(ctx context.Context, messages []broker.Message) []error {
	if len(messages) == 0 {
		return nil
	}
	return s.broker.Publisher().Publish(ctx, messages...)
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

// each calls do with the dead letters that fit, in batches, and removes the ones that do replays or
// discards. Do returns results for the first ones of a batch at least; one that has done nothing
// has an error, and ends the visit. Each counts and reports a result only when the dead letter is
// known to be removed: when the visit goes on, or has ended.
func (s *Service) each(ctx context.Context, f Filter, change bool, tell func(Result), do func([]Message) []Result) (Summary, error) {
	if err := broker.ValidateVisit(f.Tenant); err != nil {
		return Summary{}, err
	}
	count := counter{tell: tell}
	visiting, stop := ctx, context.CancelFunc(func() {})
	if change {
		visiting, stop = pause.Outlive(ctx, 0, removeTimeout)
	}
	defer stop()
	search := f.search()
	var failed error // of the visit, which has removed the dead letters before it
	err := s.broker.VisitDeadLetters(visiting, f.Tenant, search.from, func(batch []*message.Message) (removed []*message.Message, err error) {
		count.settle()
		defer func() { failed = err }()
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		letters, of, end := search.find(s.routing, batch)
		var failure error // the first one of a dead letter
		for i, r := range do(letters) {
			if r.Did == "" {
				failure = cmp.Or(failure, r.Why)
				continue
			}
			remove := change && r.Did != Refused
			if count.add(r, remove); remove {
				removed = append(removed, of[i])
			}
		}
		search.removed(removed)
		count.Seen += len(search.examined)
		return removed, cmp.Or(failure, end)
	})
	if err == nil || failed != nil && errors.Is(err, failed) {
		count.settle()
	}
	if errors.Is(err, errLimit) && !search.only || ctx.Err() != nil {
		count.Next = search.next()
	}
	switch {
	case err == nil && search.missed():
		err = ErrGone
	case errors.Is(err, errLimit):
		err = nil
	case ctx.Err() != nil:
		err = fmt.Errorf("%w%s", ctx.Err(), count.uncertain())
	case err != nil:
		err = fmt.Errorf("%w%s", err, count.uncertain())
	}
	return count.Summary, err
}
