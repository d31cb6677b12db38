package app_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/deadletter"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/fault"
	"github.com/event-service-agent/timer-service/internal/longtest"
	"github.com/event-service-agent/timer-service/timer"
)

// recover recovers on demand.
func (b *server) recover(dry bool) app.Recovered {
	b.Helper()
	db := b.open(mine)
	got, err := b.app(db, app.Options{AskToRecover: true}).Recover(b.Context(), dry)
	must(b, err)
	if known, err := db.Known(b.Context()); err != nil || known.Empty && !dry {
		b.Errorf("dry %t: %+v, %v", dry, known, err)
	}
	must(b, db.Close())
	return got
}

// TestRecover recovers on demand, after a dry run that only reports which messages it would read.
func TestRecover(t *testing.T) {
	onServer(t, func(b *server) {
		stop := b.on(mine, app.Options{})
		b.schedule("fired", time.Now())
		b.schedule("later", time.Now().Add(5*time.Minute))
		b.fires(time.Minute, "fired")
		stop()
		b.replace("")
		for _, dry := range []bool{true, true, false} {
			got := b.recover(dry)
			if dry {
				began := time.Now().Add(-time.Hour)
				if len(got.Spans) != 2 || got.Spans[0].Kind != broker.Commands || got.Spans[1].Kind != broker.Events || got.Spans[0].From != 0 || got.Spans[0].Since.Before(began) || got.Timers > 0 {
					b.Errorf("dry: %+v", got)
				}
			} else if got.Commands != 2 || got.Timers != 2 || got.Events != 1 || got.Reached != 1 || got.Spans != nil {
				b.Errorf("%+v", got)
			}
			if got, want := b.states(mine, "fired", "later"), map[bool]string{true: "fired: later:", false: "fired:Reached later:Scheduled"}[dry]; got != want {
				b.Errorf("states %s, want %s", got, want)
			}
		}
		b.on(mine, app.Options{AskToRecover: true})()
	})
}

// TestARecoveryIsWhole loses a part of a database, or all of it. Many commands are of the same
// timers, some have fired, were canceled, or are dead letters. The recovered database differs in
// nothing from the lost one.
func TestARecoveryIsWhole(t *testing.T) {
	longtest.NotShort(t)
	for what, with := range map[string]string{"in part": "copy.db", "all of it": ""} {
		t.Run(what, func(t *testing.T) {
			onServer(t, func(b *server) {
				stop := b.on(mine, app.Options{})
				b.traffic(300)
				b.backUp("copy.db")
				b.traffic(700)
				stop()
				calls := make([]string, 200)
				for i := range calls {
					calls[i] = fmt.Sprint("call-", i)
				}
				want, timers := b.states(mine, calls...), b.timersOf(mine)
				b.replace(with)
				if got := b.recover(true); len(got.Spans) == 0 || got.Commands > 0 {
					b.Errorf("a dry run: %+v", got)
				}
				did := b.recover(false)
				if did.Timers < 100 || did.Reached < 10 || did.Timers >= did.Commands || did.Reached > did.Events {
					b.Errorf("the run did %+v", did)
				}
				if got := b.states(mine, calls...); got != want {
					b.Errorf("recovered:\n%s\nwant\n%s", got, want)
				}
				if diff := cmp.Diff(timers, b.timersOf(mine)); diff != "" {
					b.Errorf("timers (-want +got):\n%s", diff)
				}
				if again := b.recover(false); again.Timers > 0 || again.Reached > 0 {
					b.Errorf("again: %+v", again)
				}
			})
		})
	}
}

// traffic sends commands of few timers, and invalid ones, while some of the timers fire.
func (b *server) traffic(commands int) {
	random := rand.New(rand.NewPCG(1, uint64(b.sent)))
	for range commands {
		b.wait(time.Duration(random.IntN(100)) * time.Millisecond)
		call := fmt.Sprint("call-", random.IntN(200))
		switch random.IntN(10) {
		case 0:
			b.publish("acme", b.version().CommandID, []byte("{"))
		case 1: // refused today, but not tomorrow
			ahead := b.version()
			ahead.TimestampMS += (25 * time.Hour).Milliseconds()
			b.send(timer.ScheduleTimer{Key: keyOf(call), Version: ahead, DueAt: time.Now().Add(time.Hour)})
		case 2, 3, 4:
			if random.IntN(5) > 0 {
				b.cancel(call)
				continue
			}
			of := timer.Selection{Prefix: call} // of call-1, call-10 and so on
			if random.IntN(2) == 0 {
				c := timer.CancelTimers{TenantID: "acme", Version: b.version(), Of: of}
				b.publish("acme", c.CommandID, envelope.CancelMany(c))
				continue
			}
			c := timer.RescheduleTimers{TenantID: "acme", Version: b.version(), Of: of, DueAt: time.Now().Add(2 * time.Hour)}
			b.publish("acme", c.CommandID, envelope.RescheduleMany(c))
		case 5, 6:
			b.schedule(call, time.Now().Add(time.Second))
		default:
			b.schedule(call, time.Now().Add(time.Hour))
		}
	}
	b.rest()
}

// TestAnInterruptedRecoveryGoesOnAtTheNextStart has the database fail when the events are
// read, and ends the service.
func TestAnInterruptedRecoveryGoesOnAtTheNextStart(t *testing.T) {
	for what, with := range map[string]string{"of a copy": "copy.db", "of all": ""} {
		t.Run(what, func(t *testing.T) {
			onServer(t, func(b *server) {
				stop := b.on(mine, app.Options{})
				began := time.Now()
				b.schedule("fired", began.Add(10*time.Second))
				b.rest()
				b.backUp("copy.db")
				b.schedule("later", began.Add(10*time.Minute))
				b.fires(time.Minute, "fired")
				stop()
				b.wait(duplicates)
				b.replace(with)

				var fails atomic.Bool
				fails.Store(true)
				db := b.open(mine)
				stop = b.until(&fault.Store{Full: db, Decide: while(&fails, "fired")}, db, app.Options{})
				b.wait(10 * time.Second)
				stop()
				if got, want := b.states(mine, "fired", "later"), "fired:Scheduled later:Scheduled"; got != want {
					b.Errorf("states %s, want the commands alone, %s", got, want)
				}
				if err := b.refused(mine, app.Options{AskToRecover: true}); !errors.Is(err, timer.ErrFatal) {
					b.Errorf("when it has to be asked for: %v, want ErrFatal", err)
				}
				stop = b.recovers(app.Options{}, true)
				b.fires(time.Until(began.Add(11*time.Minute)), "later")
				stop()
			})
		})
	}
}

// TestAStartAsksBeforeItForgetsATenant has a copy that lacks only that a tenant was forgotten.
func TestAStartAsksBeforeItForgetsATenant(t *testing.T) {
	onServer(t, func(b *server) {
		a, stop := b.service(mine, app.Options{})
		b.schedule("stays", time.Now().Add(time.Hour))
		b.rest()
		b.backUp("copy.db")
		if c, err := a.Forget(b.Context(), "acme"); err != nil || c.Total() != 1 {
			b.Errorf("forgot %+v, %v", c, err)
		}
		b.rest()
		stop()
		b.replace("copy.db")
		if err := b.refused(mine, app.Options{AskToRecover: true}); !errors.Is(err, timer.ErrFatal) || !strings.Contains(err.Error(), "acme was forgotten") {
			b.Errorf("when it has to be asked for: %v, want ErrFatal", err)
		}
		if got, want := b.states(mine, "stays"), "stays:Scheduled"; got != want {
			b.Errorf("before anyone was asked: %s, want %s", got, want)
		}
		b.recover(false)
		if got := b.states(mine, "stays"); strings.Contains(got, "Scheduled") {
			b.Errorf("after the recovery: %s", got)
		}
		b.on(mine, app.Options{AskToRecover: true})() // which has nothing to ask
	})
}

// TestARecoveryKnowsWhatOperatorsDecided replays and discards a dead letter, forgets a tenant and pauses
// firing. The database that is recovered is as they left it.
func TestARecoveryKnowsWhatOperatorsDecided(t *testing.T) {
	onServer(t, func(b *server) {
		began := time.Now()
		a, stop := b.service(mine, app.Options{Horizon: time.Hour})
		b.schedule("waits", began.Add(40*time.Minute))
		b.schedule("discarded", began.Add(2*time.Hour)) // beyond the horizon, today
		other := timer.Key{TenantID: "other", ServiceCallID: "forgotten"}
		b.send(timer.ScheduleTimer{Key: other, DueAt: began.Add(40 * time.Minute)})
		b.rest()
		letters := deadletter.New(b.broker)
		if did, err := letters.Replay(b.Context(), deadletter.Filter{}, nil); err != nil || did.Done != 1 {
			b.Fatalf("replayed %+v, %v", did, err)
		}
		b.rest() // it is refused again
		if did, err := letters.Discard(b.Context(), deadletter.Filter{}, nil); err != nil || did.Done != 1 {
			b.Fatalf("discarded %+v, %v", did, err)
		}
		if did, err := letters.List(b.Context(), deadletter.Filter{}, func(deadletter.Message) error { return nil }); err != nil || did.Done != 0 {
			b.Errorf("listed %+v, %v, want nothing that people see", did, err)
		}
		pause := func(tenant timer.TenantID, by string, until time.Time) error {
			return a.Pause(b.Context(), timer.Pause{TenantID: tenant, Until: until, By: by})
		}
		until := began.Add(10 * time.Hour)
		must(b, pause("other", "ann", until))
		if c, err := a.Forget(b.Context(), "other"); err != nil || c.Total() != 1 {
			b.Errorf("forgot %+v, %v", c, err)
		}
		must(b, errors.Join(
			pause("", "bob", time.Time{}), a.Resume(b.Context(), ""), pause("", "ann", time.Time{}), pause("", "eve", time.Time{}),
			pause("acme", "ann", until), pause("acme", "bob", until.Add(time.Hour)), pause("resumed", "ann", until), a.Resume(b.Context(), "resumed"),
		))
		b.rest()
		stop()
		b.replace("")
		b.wait(duplicates)

		b.recovers(app.Options{Horizon: 48 * time.Hour}, true)()
		if got, want := b.states(mine, "waits", "discarded"), "waits:Scheduled discarded:"; got != want {
			b.Errorf("states %s, want %s", got, want)
		}
		db := b.open(mine)
		defer db.Close()
		if e, err := db.Get(b.Context(), other); !errors.Is(err, timer.ErrNotFound) {
			b.Errorf("the tenant that was forgotten has %+v, %v", e, err)
		}
		p, err := db.Firing(b.Context(), time.Now())
		if err != nil || len(p) != 2 || p[""].By != "ann" || p["acme"].By != "ann" || !p["acme"].Until.Equal(timer.RoundUp(until.Add(time.Hour))) {
			b.Errorf("firing: %+v, %v, want it paused by ann, of all and of acme", p, err)
		}
	})
}

// TestARecoveryReadsOnlyWhatIsOurs has others write among dead letters and events: answers of the
// broker, and messages of ours that they had delivered to the topic of another tenant.
func TestARecoveryReadsOnlyWhatIsOurs(t *testing.T) {
	onServer(t, func(b *server) {
		due := time.Now().Add(time.Hour)
		stop := b.on(mine, app.Options{})
		b.schedule("waits", due)
		b.rest()
		stop()
		r := b.broker.Routing()
		publish := func(topic, body string, headers message.Metadata) {
			m := message.NewMessage(fmt.Sprint("foreign-", b.version().TimestampMS), []byte(body))
			m.Metadata = headers
			must(b, b.broker.Publisher().Publish(b.Context(), broker.Message{Topic: topic, Message: m})[0])
		}
		of := func(kind, tenant string, more ...string) message.Metadata {
			h := message.Metadata{envelope.HeaderType: kind, envelope.HeaderTenantID: tenant}
			for i := 0; i < len(more); i += 2 {
				h[more[i]] = more[i+1]
			}
			return h
		}
		event := timer.DueTimeReached{Key: keyOf("waits"), DueAt: due, ReachedAt: due}
		body := string(envelope.Reached(event))
		refused := []string{envelope.HeaderDeadLetterTopic, r.Commands, envelope.HeaderDeadLetterPosition, "1"}
		publish(r.DeadLettersOf("acme"), `{"stream":"svc","seq":1}`, nil)
		publish(r.DeadLettersOf("acme"), "{}", of("", "acme", refused...))
		publish(r.DeadLettersOf("acme"), "{}", of(envelope.TypeDeadLetter, "other", refused...))
		publish(r.DeadLettersOf("other"), "{}", of(envelope.TypeMark, "acme", envelope.HeaderMark, string(deadletter.MarkForgotten)))
		publish(r.EventsOf("acme"), `{"stream":"svc","seq":1}`, nil)
		publish(r.EventsOf("acme"), body, of(envelope.TypeDeadLetter, "acme"))
		publish(r.EventsOf("other"), body, of(envelope.TypeDueTimeReached, "acme"))
		b.rest()
		b.replace("")
		b.recover(false)
		if got, want := b.states(mine, "waits"), "waits:Scheduled"; got != want {
			b.Errorf("recovered %s, want %s", got, want)
		}
	})
}
