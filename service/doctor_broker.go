package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/nats/embedded"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/internal/symptom"
	"github.com/event-service-agent/timer-service/store/sqlite"
)

// A brokerFound holds the facts that the examination has found out about the broker.
type brokerFound struct {
	broker.Inspection
	checks  []app.Check
	reached bool
	skew    *time.Duration // how far its clock is ahead of ours; nil if that is unknown
}

// server checks the broker.
func (x *examination) server(ctx context.Context) (b brokerFound) {
	add := func(c ...app.Check) { b.checks = append(b.checks, c...) }
	if x.cfg.Broker == config.GoChannel {
		add(ok("broker", "gochannel lives inside the service: there is nothing to check"))
		return b
	}
	// It connects as the service does, whose user may not receive answers under another name.
	s, at, err := openServer(x.cfg, x.log, serving, nextTo(x.cfg))
	if x.cfg.Embedded() {
		if running, _ := sqlite.LockOwner(x.cfg.DBPath); running == "" || errors.Is(err, ErrNoServer) {
			if host, port, chosen := x.cfg.NATSAddress(); chosen && port > 0 && running == "" {
				if err := embedded.Free(host, port); err != nil {
					add(found(symptom.WrongBroker, oneLine(err)))
					return b
				}
			}
			add(ok("broker", "it is embedded in the service: it answers when that runs"))
			return b
		}
		at = "the embedded server at " + at
	}
	if err != nil {
		add(found(symptom.WrongBroker, oneLine(err)))
		return b
	}
	before := time.Now()
	b.Inspection, err = s.Inspect(ctx, roleName)
	took := time.Since(before)
	if err != nil && b.Version == "" {
		add(found(symptom.BrokerAway, at, oneLine(err)))
		return b
	}
	add(ok("broker", "%s at %s answers in %d ms", b.Version, at, took.Milliseconds()))
	if err != nil {
		add(found(symptom.NoPermission, oneLine(err)))
		return b
	}
	b.reached = true
	if b.Foreign != "" {
		add(found(symptom.Foreign, b.Foreign))
	}
	if !b.Now.IsZero() {
		b.skew = new(b.Now.Sub(before.Add(took))) // the broker reads its clock last
		if *b.skew <= 0 && *b.skew >= -took {
			*b.skew = 0
		}
	}
	add(x.provisions(s.Provision(ctx, true))...)
	add(x.limits(b.Inspection)...)
	return b
}

// provisions reports objects that are missing at the broker, or do not fit.
func (x *examination) provisions(changes []broker.Change, err error) (all []app.Check) {
	for _, c := range changes {
		if x.cfg.Provision == config.Verify {
			all = append(all, found(symptom.NotProvisioned, c.Object))
		} else {
			all = append(all, ok("stream", "%s is made when the service starts: %s", c.Object, c.Detail))
		}
	}
	if err != nil {
		all = append(all, found(symptom.Unfit, oneLine(err)))
	} else if len(changes) == 0 {
		all = append(all, ok("stream", "all that the service needs is there, and fits"))
	}
	return all
}

// nearlyFull is the use of a stream's limit, in percent, from which on it is reported.
const nearlyFull = 80

// limits says which messages the broker keeps, and for how long.
func (x *examination) limits(b broker.Inspection) (all []app.Check) {
	if b.Keeps == "" {
		return nil
	}
	text := b.Keeps
	if b.MaxAge > 0 {
		text += ", kept for " + config.FormatDuration(b.MaxAge)
	}
	if b.Limit > 0 {
		used := 100 * b.Used / b.Limit
		text += fmt.Sprintf(", %d %% of the %s used", used, b.Limited)
		if used >= nearlyFull {
			all = append(all, found(symptom.StreamFull, b.Limited, used))
		}
	}
	if x.cfg.Broker == config.NATS && (b.MaxAge == 0 || b.MaxAge >= x.cfg.Retention) {
		all = append(all, found(symptom.KeepsLonger, config.FormatDuration(x.cfg.Retention)))
	}
	return append(all, ok("limits", "%s", text))
}
