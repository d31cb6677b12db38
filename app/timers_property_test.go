package app_test

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"pgregory.net/rapid"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// TestInvariantsOfBothWays has a program schedule and cancel in its own process, in
// transactions of its own that are committed or not, and over the broker, all about
// the same keys. Every promise must hold whatever way a command took.
func TestInvariantsOfBothWays(t *testing.T) {
	t.Parallel()
	if _, err := migrated(); err != nil { // not in a bubble, which its goroutines would outlive
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		ways := rapid.Custom(func(t *rapid.T) step {
			s := steps().Draw(t, "step")
			s.Do = rapid.SampledFrom([]string{"wait", "schedule", "cancel", "resend", "outage", "crash", "restart", "clock", "direct", "direct", "joined", "joined", "rolled back", "cancel direct"}).Draw(t, "do")
			return s
		})
		history := rapid.SliceOfN(ways, 8, 16).Draw(rt, "history")
		seed := rapid.Uint64().Draw(rt, "seed")
		oneIn := rapid.SampledFrom([]int{0, 20, 5}).Draw(rt, "one call in … fails")
		var broken error
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(48 * time.Hour) // bubbles begin with the year 2000, before which nothing may be due
			w := newWorld(t, seed, oneIn, app.Options{BatchSize: 3})
			w.start()
			defer w.stop()
			broken = w.bothWays(history)
		})
		if broken != nil {
			rt.Fatal(broken)
		}
	})
}

func (w *world) bothWays(history []step) error {
	for i, s := range history {
		if err := w.book(i, s); err != nil {
			return fmt.Errorf("step %d, %+v: %w", i, s, err)
		}
		if err := w.once(i, s); err != nil {
			return err
		}
	}
	return w.settle(20 * time.Minute)
}

var errRollBack = errors.New("no")

// book goes through a step that is not about the broker. A command whose effect is
// unknown is sent over the broker, with the same version.
func (w *world) book(i int, s step) error {
	key := timer.Key{TenantID: timer.TenantID(name("tenant-", s.Key%2)), ServiceCallID: timer.ServiceCallID(name("call-", s.Key))}
	ctx, timers := w.t.Context(), w.app.Timers()
	if s.Do == "cancel direct" {
		version := timer.Version{TimestampMS: w.clock().Add(2 * time.Minute).UnixMilli(), CommandID: "newer"} // than the one that is made
		if err := timers.Cancel(ctx, key); err == nil || unknown(err) {
			w.cancel(timer.CancelTimer{Key: key, Version: version}) // so that the version is known, and that it is done
		}
		return nil
	}
	c := timer.ScheduleTimer{
		Key: key, Version: timer.Version{TimestampMS: firstMS + s.Age, CommandID: fmt.Sprintf("command-%02d", i)},
		DueAt: timer.RoundUp(w.clock().Add(s.Due)), CorrelationID: name("trace-", i), Data: `{"way":"direct"}`,
	}
	if s.Life > 0 {
		c.ExpiresAt = c.DueAt.Add(s.Life)
	}
	asked := client.Timer{TenantID: key.TenantID, ServiceCallID: key.ServiceCallID, DueAt: c.DueAt, ExpiresAt: c.ExpiresAt, CorrelationID: c.CorrelationID, Data: json.RawMessage(c.Data), Version: c.Version}
	var err error
	switch s.Do {
	case "direct":
		err = timers.Schedule(ctx, asked)
	case "joined":
		err = timers.Tx(ctx, func(tx *sql.Tx) error {
			switch err := timers.ScheduleTx(ctx, tx, asked); {
			case unknown(err):
				return err
			default: // what has no effect is committed, too
				return nil
			}
		})
	case "rolled back":
		err = timers.Tx(ctx, func(tx *sql.Tx) error { return errors.Join(timers.ScheduleTx(ctx, tx, asked), errRollBack) })
		if err == nil {
			return errors.New("committed what fails")
		}
		return nil // if it fires it is invented
	default:
		return nil
	}
	msg := message.NewMessage(c.CommandID, envelope.Schedule(c))
	sent := sentCommand{schedule: &c, simCommand: &simCommand{msg: msg, ackedAt: time.Now()}}
	if unknown(err) {
		sent.simCommand = w.broker.send(msg)
	}
	w.remember(sent)
	return nil
}

// unknown reports whether the effect of a call is not known.
func unknown(err error) bool {
	return err != nil && !errors.Is(err, timer.ErrStale) && !errors.Is(err, timer.ErrReached) && !errors.Is(err, timer.ErrExpired)
}
