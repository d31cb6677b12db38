package service

import (
	"context"
	"log/slog"
	"regexp"
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

// examineTimeout is how long a part may take to answer.
const examineTimeout = 5 * time.Second

// Examine finds faults in the things that the service needs, whether a service runs or not.
// It runs the checks of a running service, and checks that only this machine allows. It
// changes nothing. The advice of a check without a fault is empty.
func Examine(ctx context.Context, cfg config.Config) []app.Check {
	x := &examination{cfg: cfg, log: slog.New(slog.DiscardHandler)}
	late := func(part string) []app.Check {
		c := found(symptom.NoAnswer, examineTimeout)
		c.Part = part
		return []app.Check{c}
	}
	here := inTime(ctx, late("files"), func(context.Context) []app.Check { return slices.Concat(x.files(), x.disk()) }) // before we open any
	web := inTime(ctx, late("http"), x.http)
	db := inTime(ctx, databaseFound{checks: late("database")}, x.database)
	b := inTime(ctx, brokerFound{checks: late("broker")}, x.server)
	counted := inTime(ctx, []app.Check{found(symptom.Uncounted, "no answer in time")}, func(ctx context.Context) []app.Check {
		defer db.close()
		return x.backup(ctx, db, b)
	})
	return slices.Concat(x.settings(), web, here, db.checks, b.checks, x.owner(db, b), x.clock(db, b), counted)
}

// inTime returns the result of find, whose context ends after a while. If find does not
// return then, the result is late: a file system or a driver may hang.
func inTime[T any](ctx context.Context, late T, find func(context.Context) T) T {
	ctx, cancel := context.WithTimeout(ctx, examineTimeout)
	defer cancel()
	answer := make(chan T, 1)
	go func() { answer <- find(ctx) }()
	select {
	case v := <-answer:
		return v
	case <-time.After(examineTimeout + 100*time.Millisecond):
		return late
	}
}

// An examination is one run of [Examine].
type examination struct {
	cfg   config.Config
	log   *slog.Logger
	asked bool // a service that runs has said how its parts are
}

// settings reports settings that are risky.
func (x *examination) settings() []app.Check {
	all := []app.Check{ok("settings", "%d set, the others have their defaults", x.cfg.Given())}
	if x.cfg.Durability == config.Relaxed {
		all = append(all, found(symptom.Relaxed))
	}
	if x.cfg.TokenInClear() {
		all = append(all, found(symptom.TokenInClear, x.cfg.HTTPAddr))
	}
	if x.cfg.Broker == config.GoChannel {
		all = append(all, found(symptom.InProcess))
	}
	return all
}

// owner compares the database with the one that the broker knows.
func (x *examination) owner(db databaseFound, b brokerFound) []app.Check {
	switch kept := b.Owner; {
	case !b.reached:
		return nil
	case kept.Database == "":
		return []app.Check{ok("owner", "no database owns the commands yet: the first service that starts does")}
	case kept.Database != db.id && db.empty:
		return []app.Check{found(symptom.OwnerNew, kept.Name, kept.Database)}
	case db.id == "": // why is said above
		return nil
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
		switch {
		case other.skew == nil:
		case other.skew.Abs() < noticeable:
			all = append(all, ok("clock", "that of %s agrees to less than a second", other.of))
		default:
			c := found(symptom.ClockOff, other.of, other.skew.Round(time.Millisecond))
			c.Red = other.skew.Abs() >= intolerable
			all = append(all, c)
		}
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
	only, err := onlyInBackups(ctx, db.store, b.Oldest) // zero if the broker keeps nothing
	switch only.At = time.Now(); {
	case err != nil:
		return []app.Check{found(symptom.Uncounted, err)}
	case only.Timers > 0 && !only.Before.IsZero():
		return []app.Check{found(symptom.Unprotected, only)}
	}
	return []app.Check{ok("backup", "%v", only)}
}

// credentials matches the user and password of a URL.
var credentials = regexp.MustCompile(`://[^\s"]*@`)

// oneLine returns the text of an error on one line, without credentials.
func oneLine(err error) string {
	text := credentials.ReplaceAllString(err.Error(), "://***@")
	return strings.Join(strings.Fields(strings.ReplaceAll(text, "\n", "; ")), " ")
}
