package service

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/nats/embedded"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/internal/symptom"
	"github.com/event-service-agent/timer-service/store/sqlite"
)

// A brokerFound is what the examination knows of the broker.
type brokerFound struct {
	broker.Inspection
	checks  []app.Check
	reached bool
	skew    *time.Duration // how far its clock is ahead of ours; nil if that is unknown
}

// credentials matches the user and password of a URL.
var credentials = regexp.MustCompile(`://[^\s"]*@`)

// server checks the broker.
func (x *examination) server(ctx context.Context) (b brokerFound) {
	add := func(c ...app.Check) { b.checks = append(b.checks, c...) }
	if x.isUnclear("broker", "nats_", "kafka_", "rabbitmq_", "commands_topic", "events_topic", "dead_letters_topic", "db_path") {
		b.checks = of("broker", found(symptom.NotChecked))
		return b
	}
	if x.cfg.Broker == config.GoChannel {
		add(ok("broker", "gochannel lives inside the service: there is nothing to check"))
		return b
	}
	// It connects as the service does, whose user may not receive answers under another name.
	s, at, err := openServer(x.cfg, x.log, serving, beside(x.cfg))
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
	switch {
	case err != nil && b.Version == "" && x.cfg.Embedded():
		add(found(symptom.EmbeddedAway, at, oneLine(err)))
		return b
	case err != nil && b.Version == "":
		add(found(symptom.BrokerAway, at, oneLine(err)))
		return b
	}
	answered := "less than 10 ms"
	if took >= 10*time.Millisecond {
		answered = fmt.Sprintf("%d ms", took.Milliseconds())
	}
	add(ok("broker", "%s answers in %s", at, answered))
	if err != nil {
		add(found(symptom.NoPermission, oneLine(err)))
		return b
	}
	b.reached = true
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
	inNATS := x.cfg.Broker == config.NATS
	age, size := "", ""
	if b.Rereads && inNATS {
		age, size = ", kept for ever", ", no size limit"
		if b.MaxAge > 0 {
			age = ", kept for " + config.FormatDuration(b.MaxAge)
		}
	}
	if b.Limit > 0 {
		used := 100 * b.Used / b.Limit
		size = fmt.Sprintf(", %d %% of %s used", used, formatSize(b.Limit))
		if used >= nearlyFull {
			all = append(all, found(symptom.StreamFull, used, formatSize(b.Limit)))
		}
	}
	if inNATS && (b.MaxAge == 0 || b.MaxAge >= x.cfg.Retention) {
		all = append(all, found(symptom.KeepsLonger, config.FormatDuration(x.cfg.Retention)))
	}
	return append([]app.Check{ok("limits", "%s%s%s", b.Keeps, age, size)}, all...)
}

// formatSize formats a number of bytes for people.
func formatSize(bytes int64) string {
	const gi, mi = 1 << 30, 1 << 20
	if bytes >= gi {
		return fmt.Sprintf("%.1f GiB", float64(bytes)/gi)
	}
	return fmt.Sprintf("%.0f MiB", float64(bytes)/mi)
}
