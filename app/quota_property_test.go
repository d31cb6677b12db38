package app_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"pgregory.net/rapid"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// quotaSteps returns steps among which quotas change, and many commands come at once.
func quotaSteps() *rapid.Generator[step] {
	ordinary := steps()
	return rapid.Custom(func(t *rapid.T) step {
		s := ordinary.Draw(t, "step")
		switch rapid.IntRange(0, 4).Draw(t, "quota") {
		case 3:
			s.Do = "quota"
		case 4:
			s.Do = "many"
		}
		return s
	})
}

// TestInvariantsWithQuotas is as TestInvariants, with quotas so small that they
// are met all the time. Whoever finds a command among the dead letters that was
// over a quota replays it. In the end, when there are no quotas any more, nothing
// is lost.
func TestInvariantsWithQuotas(t *testing.T) {
	t.Parallel()
	if _, err := migrated(); err != nil { // not in a bubble, which its goroutines would outlive
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		history := rapid.SliceOfN(quotaSteps(), 4, 20).Draw(rt, "history")
		seed := rapid.Uint64().Draw(rt, "seed")
		oneIn := rapid.SampledFrom([]int{0, 20, 5}).Draw(rt, "one call in … fails")
		var broken error
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(48 * time.Hour) // bubbles begin with the year 2000, before which nothing may be due
			w := newWorld(t, seed, oneIn, app.Options{BatchSize: 3})
			w.quotas = &quota.Config{Default: limitsOf(step{Key: 1, Age: 3})}
			w.start()
			defer w.stop()
			broken = w.live(history)
		})
		if broken != nil {
			rt.Fatal(broken)
		}
	})
}

// limitsOf returns small limits, all kinds of them.
func limitsOf(s step) quota.Limits {
	l := quota.Limits{Live: s.Age % 4, Policy: quota.Delay}
	if s.Key > 0 {
		l.Accept = quota.Rate{PerSecond: float64(s.Key) / 30, Burst: 1 + s.Key%2}
	}
	if s.Due > 0 {
		l.Fire = quota.Rate{PerSecond: 5000 / float64(s.Due.Milliseconds()+1), Burst: 1}
	}
	if s.Near || s.Key == 4 {
		l.Policy = quota.DeadLetter
	}
	return l
}

// limit puts limits in force, of all tenants or of one.
func (w *world) limit(s step) {
	config := quota.Config{Default: w.quotas.Default, Tenants: map[timer.TenantID]quota.Limits{}}
	if s.Key%2 == 0 {
		config.Default = limitsOf(s)
	} else {
		config.Tenants["tenant-1"] = limitsOf(s)
	}
	w.use(config)
}

func (w *world) use(config quota.Config) {
	w.quotas = &config
	if err := w.limiter.Use(config); err != nil {
		w.t.Error(err)
	}
}

// commandOf returns the command that a dead letter was made of.
func (w *world) commandOf(dead *message.Message) (sentCommand, bool) {
	id := dead.Metadata.Get(envelope.HeaderDeadLetterOriginalID)
	i := slices.IndexFunc(w.sent, func(c sentCommand) bool { return c.msg.UUID == id })
	if i < 0 {
		return sentCommand{}, false
	}
	return w.sent[i], true
}

// replay has commands delivered again that were over a quota.
func (w *world) replay(deadLetters []*message.Message) {
	for _, dead := range deadLetters {
		if dead.Metadata.Get(envelope.HeaderDeadLetterReason) != string(timer.ReasonOverQuota) {
			continue
		}
		if c, ok := w.commandOf(dead); ok {
			w.replayed[c.simCommand] = true
			w.broker.replay(c.simCommand)
		}
	}
}

// checkOverQuota checks the dead letter of a command that was over a quota.
func (w *world) checkOverQuota(dead *message.Message) error {
	c, ok := w.commandOf(dead)
	switch {
	case !ok:
		return errors.New("of no command")
	case w.quotas == nil:
		return errors.New("there were never any quotas")
	case c.schedule == nil:
		return errors.New("of a CancelTimer, which has no quota")
	case string(dead.Payload) != string(c.msg.Payload):
		return fmt.Errorf("has another body: %q", dead.Payload)
	case dead.Metadata.Get("topic") != simRouting.DeadLettersOf(c.key().TenantID):
		return fmt.Errorf("went to %s", dead.Metadata.Get("topic"))
	}
	return nil
}
