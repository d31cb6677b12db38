package service

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/internal/symptom"
)

// found returns a check that has found a symptom.
func found(s symptom.Symptom, values ...any) app.Check {
	return app.Check{Part: s.Part, Reason: s.Seen(values...), Advice: s.Advice(values...), Red: s.Red}
}

// ok returns a check that has found no symptom.
func ok(part, format string, args ...any) app.Check {
	return app.Check{Part: part, Reason: symptom.Symptom{Text: format}.Seen(args...)}
}

// of returns the check c for another part that shares its symptom.
func of(part string, c app.Check) []app.Check {
	c.Part = part
	return []app.Check{c}
}

// These are the deadlines of the checks. The checks of the first round run at the same time.
// The second round needs their results.
const (
	firstRound  = 5 * time.Second
	secondRound = 3 * time.Second
)

// Examine finds faults in the things that the service needs, whether a service runs or not,
// in at most ten seconds. It runs the checks of a running service, and checks that only this
// machine allows. It changes nothing. Mistakes are the errors of [config.Try], which returned
// the configuration: settings with mistakes are not checked further. The advice of a check
// without a fault is empty.
func Examine(ctx context.Context, cfg config.Config, mistakes []error) []app.Check {
	x := &examination{cfg: cfg, log: slog.New(slog.DiscardHandler), unclear: make(map[string]bool)}
	for _, err := range mistakes {
		key := unreadable
		if m, is := errors.AsType[*config.Mistake](err); is {
			key = m.Key
		}
		x.unclear[key] = true
	}
	first, cancel := context.WithTimeout(ctx, firstRound)
	defer cancel()
	late := func(part string) []app.Check { return of(part, found(symptom.NoAnswer, firstRound)) }
	here := inTime(firstRound, late("files"), func() []app.Check { return slices.Concat(x.files(), x.disk()) })() // before we open any
	web := inTime(firstRound, late("http"), func() []app.Check { return x.http(first) })
	database := inTime(firstRound, databaseFound{checks: late("database")}, func() databaseFound { return x.database(first) })
	server := inTime(firstRound, brokerFound{checks: late("broker")}, func() brokerFound { return x.server(first) })
	db, b, all := database(), server(), slices.Concat(x.settings(mistakes), web(), here)

	second, cancel := context.WithTimeout(ctx, secondRound)
	defer cancel()
	counted := inTime(secondRound, []app.Check{found(symptom.Uncounted, "no answer in time")}, func() []app.Check {
		defer db.close()
		return x.backup(second, db, b)
	})
	return slices.Concat(all, db.checks, b.checks, x.owner(db, b), x.clock(db, b), counted(), x.versions(db, b))
}

// inTime starts find, and returns a function that waits for its result. After the limit, at
// which a context ends, that function returns or instead, since a file system or a driver may
// hang.
func inTime[T any](limit time.Duration, or T, find func() T) (wait func() T) {
	answer, late := make(chan T, 1), time.After(limit+100*time.Millisecond)
	go func() { answer <- find() }()
	return func() T {
		select {
		case v := <-answer:
			return v
		case <-late:
		}
		select { // a result that is ready by now counts
		case v := <-answer:
			return v
		default:
			return or
		}
	}
}

// unreadable stands for all settings of a file that can't be read.
const unreadable = "*"

// An examination is one run of [Examine].
type examination struct {
	cfg     config.Config
	log     *slog.Logger
	unclear map[string]bool // keys of settings with a mistake
}

// isUnclear reports whether a setting whose key has one of these prefixes has a mistake.
func (x *examination) isUnclear(prefixes ...string) bool {
	for key := range x.unclear {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(key, p) }) {
			return true
		}
	}
	return x.unclear[unreadable]
}

// settings returns a check for each mistake.
func (x *examination) settings(mistakes []error) (all []app.Check) {
	for _, err := range mistakes {
		s := symptom.WrongSetting
		if m, is := errors.AsType[*config.Mistake](err); is && m.Key == m.From {
			s = symptom.UnknownName
		}
		all = append(all, found(s, err))
	}
	file := func(key, name string, load func(string) error) {
		if name == "" || x.isUnclear(key) {
			return
		}
		if err := load(name); err != nil {
			all = append(all, found(symptom.WrongFile, key, oneLine(err)))
		}
	}
	file("quotas_file", x.cfg.QuotasFile, func(name string) error { _, err := config.LoadQuotas(name); return err })
	file("http_tenant_tokens_file", x.cfg.HTTPTenantTokensFile, func(name string) error { _, err := config.LoadTenantTokens(name); return err })
	if len(all) > 0 {
		return all
	}
	if x.cfg.Durability == config.Relaxed {
		all = append(all, found(symptom.Relaxed))
	}
	if x.cfg.Broker == config.GoChannel {
		all = append(all, found(symptom.InProcess))
	}
	return append(all, ok("settings", "%d set, the others have their defaults", x.cfg.Given()))
}

// owner compares the database with the one that the broker knows.
func (x *examination) owner(db databaseFound, b brokerFound) []app.Check {
	switch kept := b.Owner; {
	case !b.reached:
		return nil
	case kept.Database == "":
		return []app.Check{ok("owner", "no database owns the commands yet: the first service that starts does")}
	case db.id == "":
		return []app.Check{found(symptom.OwnerNew, kept.Name, kept.Database)}
	case kept.Database != db.id:
		return []app.Check{found(symptom.OwnerOther, kept.Name, kept.Database, db.name, db.id)}
	}
	return []app.Check{ok("owner", "the commands belong to this database, id %s", db.id)}
}

// These are differences of clocks.
const (
	noticeable  = time.Second
	intolerable = time.Minute
)

// clock compares the clock of this machine with others.
func (x *examination) clock(db databaseFound, b brokerFound) (all []app.Check) {
	for _, other := range []struct {
		of   string
		skew *time.Duration
	}{{"the database", db.skew}, {"the broker", b.skew}} {
		if other.skew == nil {
			continue
		}
		skew := other.skew.Round(time.Millisecond)
		side := "behind"
		if skew < 0 {
			side = "ahead of"
		}
		switch abs := skew.Abs(); {
		case abs >= intolerable:
			all = append(all, found(symptom.ClockOff, abs.Round(time.Second), side, other.of))
		case abs >= noticeable:
			all = append(all, found(symptom.ClockDrifts, abs, side, other.of))
		default:
			all = append(all, ok("clock", "that of %s agrees to less than a second", other.of))
		}
	}
	if all == nil {
		all = []app.Check{ok("clock", "there is no other one to compare with: see that this machine keeps its own right")}
	}
	return all
}

// backup counts the timers that could not be read again from the broker.
func (x *examination) backup(ctx context.Context, db databaseFound, b brokerFound) []app.Check {
	if db.store == nil {
		return nil
	}
	inProcess := x.cfg.Broker == config.GoChannel
	if !inProcess && (!b.reached || b.Rereads && b.Oldest.IsZero()) {
		return []app.Check{ok("backup", "unknown, backup only: the broker does not say how old its oldest message is")}
	}
	since := b.Oldest
	if inProcess || !b.Rereads {
		since = time.Time{}
	}
	only, err := onlyInBackups(ctx, db.store, since)
	switch only.At = time.Now(); {
	case err != nil:
		return []app.Check{found(symptom.Uncounted, err)}
	case only.Timers > 0 && !only.Before.IsZero():
		return []app.Check{found(symptom.Unprotected, only)}
	}
	return []app.Check{ok("backup", "%v", only)}
}
