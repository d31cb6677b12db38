package app_test

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

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
