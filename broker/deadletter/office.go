package deadletter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"golang.org/x/time/rate"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/timer"
)

// MaxReplays is how often a message is replayed. What failed four times in all
// needs a person, not a fourth replay.
const MaxReplays = 3

// linger is how long a letter that was replayed may take to be removed when the
// context has ended meanwhile.
const linger = 5 * time.Second

// A Broker is what an [Office] needs of a [broker.Broker].
type Broker interface {
	broker.DeadLetters
	Publisher() message.Publisher
	Routing() broker.Routing
}

// An Office lists, replays and discards the dead letters of a broker, which must
// be running. It is safe for concurrent use, though two that replay the same
// letters may both do so.
type Office struct {
	broker  Broker
	routing broker.Routing
}

// New returns an Office.
func New(b Broker) *Office { return &Office{broker: b, routing: b.Routing()} }

// Options tune [Office.Replay] and [Office.Discard]. The zero value is ready to
// use.
type Options struct {
	Rate   float64      // most letters a second; 0 for no limit
	DryRun bool         // only tell what would be done
	Tell   func(Result) // called once for each letter that is meant; may be nil
}

func (o Options) limiter() *rate.Limiter {
	if o.Rate <= 0 {
		return rate.NewLimiter(rate.Inf, 1)
	}
	return rate.NewLimiter(rate.Limit(o.Rate), 1)
}

// What was done with a letter.
const (
	Replayed  = "replayed"  // published again, and removed
	Discarded = "discarded" // removed
	Refused   = "refused"   // left where it is
)

// A Result is what was done with a letter, or would be.
type Result struct {
	Letter Letter
	Did    string // one of [Replayed], [Discarded], [Refused]
	Topic  string // where it was replayed to
	ID     string // of the message it was replayed as
	Why    error  // why it was refused; else nil
}

// A Summary is what a call did altogether.
type Summary struct {
	Done    int      // letters listed, replayed or discarded, or those that would be
	Refused int      // letters that were left where they are
	Missing []string // ids of the filter that no letter has; nil unless all letters were visited
	More    bool     // the limit was reached, and there are letters behind it
}

// List calls show with each letter that is meant, oldest first. Nothing changes.
// It ends at the first error, of ctx, the broker or show, and returns it.
func (o *Office) List(ctx context.Context, f Filter, show func(Letter) error) (Summary, error) {
	return o.each(ctx, f, Options{DryRun: true}, func(l Letter) (Result, error) {
		return Result{Letter: l}, show(l)
	})
}

// Replay publishes the originals of the letters that are meant once more, each
// to the commands of its tenant, and then removes the letter. Letters that can't
// be replayed are told of as [Refused]: those that were replayed [MaxReplays]
// times, those whose body was cut, those without a topic to go to, and those
// that the broker refuses. It ends at the first other error, of ctx or the
// broker, and returns it, together with what was done until then.
func (o *Office) Replay(ctx context.Context, f Filter, opt Options) (Summary, error) {
	limiter := opt.limiter()
	return o.each(ctx, f, opt, func(l Letter) (Result, error) {
		topic, err := o.destination(l)
		if err != nil {
			return Result{Letter: l, Did: Refused, Why: err}, nil
		}
		msg := l.replay()
		done := Result{Letter: l, Did: Replayed, Topic: topic, ID: msg.UUID}
		if opt.DryRun {
			return done, nil
		}
		if err := limiter.Wait(ctx); err != nil {
			return Result{}, ended(ctx, err)
		}
		switch err := o.broker.Publisher().Publish(topic, msg); {
		case errors.Is(err, broker.ErrRefused):
			return Result{Letter: l, Did: Refused, Why: err}, nil
		case err != nil:
			return Result{}, fmt.Errorf("replay %s, which stays: %w", timer.Quote(l.ID), err)
		}
		return done, nil
	})
}

// Discard removes the letters that are meant. It ends at the first error, of ctx
// or the broker, and returns it, together with what was done until then.
func (o *Office) Discard(ctx context.Context, f Filter, opt Options) (Summary, error) {
	limiter := opt.limiter()
	return o.each(ctx, f, opt, func(l Letter) (Result, error) {
		if !opt.DryRun {
			if err := limiter.Wait(ctx); err != nil {
				return Result{}, ended(ctx, err)
			}
		}
		return Result{Letter: l, Did: Discarded}, nil
	})
}

// destination returns the topic to which a letter is replayed, or why there is none.
func (o *Office) destination(l Letter) (string, error) {
	switch {
	case l.Truncated:
		return "", errors.New("its body was cut, so it is not the original")
	case l.Replays >= MaxReplays:
		return "", fmt.Errorf("it was replayed %d times already", l.Replays)
	case l.Tenant != timer.NoTenant:
		return o.routing.CommandsOf(l.Tenant), nil
	}
	anybodys := o.routing.CommandsOf(timer.NoTenant)
	if anybodys == o.routing.Commands {
		return anybodys, nil
	}
	// Topics are of tenants, and the letter is of none: it goes back to where it
	// came from. It never came from the topic of a valid tenant, whatever it says,
	// nor from one that nobody subscribes to.
	named, ok := o.routing.TenantOf(l.Topic)
	if !ok || named.Validate() == nil || named == "" || strings.ContainsAny(string(named), ".*>#/ \t\r\n") {
		return "", fmt.Errorf("it names no tenant, and %s is no topic it can have come from", timer.Quote(l.Topic))
	}
	return l.Topic, nil
}

// errEnough ends a visit at the limit.
var errEnough = errors.New("enough")

// each calls do with each letter that is meant, and removes those that it replays
// or discards. A letter is told of and counted when it is known what became of it:
// when the visit goes on, or is over.
func (o *Office) each(ctx context.Context, f Filter, opt Options, do func(Letter) (Result, error)) (Summary, error) {
	if err := broker.ValidateVisit(f.Tenant); err != nil {
		return Summary{}, err
	}
	count := tally{tell: opt.Tell, missing: slices.Clone(f.IDs)}
	visiting, stop := ctx, context.CancelFunc(func() {})
	if !opt.DryRun {
		visiting, stop = lingering(ctx)
	}
	defer stop()
	err := o.broker.VisitDeadLetters(visiting, f.Tenant, func(msg *message.Message) (bool, error) {
		count.settle()
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if f.Limit > 0 && count.met == f.Limit {
			return false, errEnough
		}
		l := Read(o.routing, msg)
		if !f.fits(l) {
			return false, nil
		}
		did, err := do(l)
		if err != nil {
			return false, err
		}
		remove := !opt.DryRun && did.Did != Refused
		count.meet(did, remove)
		return remove, nil
	})
	switch {
	case err == nil:
		count.settle()
		count.Missing = count.missing
	case errors.Is(err, errEnough):
		count.More = true
		err = nil
	case ctx.Err() != nil:
		err = fmt.Errorf("%w%s", ctx.Err(), count.doubt())
	default:
		err = fmt.Errorf("%w%s", err, count.doubt())
	}
	return count.Summary, err
}

// lingering returns a context that ends a while after ctx, so that what was
// replayed is removed too.
func lingering(ctx context.Context) (context.Context, context.CancelFunc) {
	visiting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(linger, cancel) })
	return visiting, func() {
		stop()
		cancel()
	}
}

// ended returns the error of a context that ended, or another one.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
