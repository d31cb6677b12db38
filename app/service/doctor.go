package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/timer"
)

// A FindingState says how bad a [Finding] is.
type FindingState string

// States of findings.
const (
	OK      FindingState = "ok"
	Warning FindingState = "warning" // it works, and may not for long, or not as one thinks
	Bad     FindingState = "bad"     // it does not work
)

// A Finding is what one check found, in one line.
type Finding struct {
	State FindingState `json:"state"`
	Check string       `json:"check"` // such as "database"
	Text  string       `json:"text"`
	Do    string       `json:"do,omitempty"` // what to do about it
}

func ok(check, format string, args ...any) Finding {
	return Finding{State: OK, Check: check, Text: fmt.Sprintf(format, args...)}
}

func warn(check, do, format string, args ...any) Finding {
	return Finding{State: Warning, Check: check, Do: do, Text: fmt.Sprintf(format, args...)}
}

func bad(check, do, format string, args ...any) Finding {
	return Finding{State: Bad, Check: check, Do: do, Text: fmt.Sprintf(format, args...)}
}

// Deadlines of the checks: those of the first round are made at the same time, those of
// the second need what the first found.
const (
	firstRound  = 5 * time.Second
	secondRound = 3 * time.Second
)

// Examine finds what is wrong with what the service needs, whether one runs
// or not, in at most ten seconds. It changes nothing. Mistakes are those of [config.Try],
// which returned the configuration: what they concern is not checked.
func Examine(ctx context.Context, cfg config.Config, mistakes []error) []Finding {
	x := &examination{cfg: cfg, log: slog.New(slog.DiscardHandler), unclear: make(map[string]bool)}
	for _, err := range mistakes {
		key := unreadable
		if m, is := errors.AsType[*config.Mistake](err); is {
			key = m.Key
		}
		x.unclear[key] = true
	}
	settings, database, server, local := x.settings(mistakes), make(chan databaseFound, 1), make(chan brokerFound, 1), make(chan []Finding, 1)
	first, cancel := context.WithTimeout(ctx, firstRound)
	defer cancel()
	go func() { local <- slices.Concat(x.files(), x.disk()) }()
	here := inTime(first, local, late("files", "the file system does not answer within %v", firstRound)) // before we open any
	go func() { database <- x.database(first) }()
	go func() { server <- x.server(first) }()
	go func() { local <- x.http(first) }()
	db := inTime(first, database, databaseFound{findings: late("database", "no answer within %v", firstRound)})
	b := inTime(first, server, brokerFound{findings: late("broker", "no answer within %v", firstRound)})
	web := inTime(first, local, late("http", "no answer within %v", firstRound))

	second, cancel := context.WithTimeout(ctx, secondRound)
	defer cancel()
	both := make(chan []Finding, 1)
	go func() {
		found := slices.Concat(x.owner(db, b), x.clock(db, b), x.backup(second, db, b))
		db.close()
		both <- found
	}()
	together := inTime(second, both, late("backup", "timers could not be counted within %v", secondRound))
	return slices.Concat(settings, web, here, db.findings, b.findings, together, x.versions(db, b))
}

// inTime returns what arrives before ctx ends, or else.
func inTime[T any](ctx context.Context, from <-chan T, or T) T {
	select {
	case v := <-from:
		return v
	case <-ctx.Done():
		select { // what came when ctx ended
		case v := <-from:
			return v
		case <-time.After(100 * time.Millisecond):
			return or
		}
	}
}

func late(check, format string, within time.Duration) []Finding {
	do := "the network drops packets, or the server hangs: see that it runs, and what a firewall does"
	if check == "backup" {
		do = "see that backups are made"
		return []Finding{warn(check, do, format, within)}
	}
	return []Finding{bad(check, do, format, within)}
}

// unreadable stands for all settings, in a file that can't be read.
const unreadable = "*"

// An examination is one run of [Examine].
type examination struct {
	cfg     config.Config
	log     *slog.Logger
	unclear map[string]bool // keys of settings with a mistake
}

// isUnclear reports whether a setting that begins like one of these has a mistake.
func (x *examination) isUnclear(prefixes ...string) bool {
	for key := range x.unclear {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(key, p) }) {
			return true
		}
	}
	return x.unclear[unreadable]
}

// settings are a finding for each mistake.
func (x *examination) settings(mistakes []error) (all []Finding) {
	for _, err := range mistakes {
		do := "correct it: timer-service config shows where settings come from"
		if m, is := errors.AsType[*config.Mistake](err); is && m.Key == m.From {
			do = "correct the name, or remove it"
		}
		all = append(all, bad("settings", do, "%v", err))
	}
	if cfg := x.cfg; cfg.QuotasFile != "" && !x.isUnclear("quotas_file") {
		if _, err := config.LoadQuotas(cfg.QuotasFile); err != nil {
			all = append(all, bad("settings", "correct the file", "quotas_file: %v", strings.ReplaceAll(err.Error(), "\n", "; ")))
		}
	}
	if name := x.cfg.HTTPTenantTokensFile; name != "" && !x.isUnclear("http_tenant_tokens_file") {
		if _, err := config.LoadTenantTokens(name); err != nil {
			all = append(all, bad("settings", "correct the file", "http_tenant_tokens_file: %v", strings.ReplaceAll(err.Error(), "\n", "; ")))
		}
	}
	if len(all) > 0 {
		return all
	}
	given := 0
	for _, v := range x.cfg.Values() {
		if v.From != config.FromDefault.String() {
			given++
		}
	}
	if x.cfg.Durability == config.Relaxed {
		all = append(all, warn("settings", "set it to strict, unless speed matters more", "durability is relaxed: a loss of power may lose the newest commands"))
	}
	if x.cfg.Broker == config.GoChannel {
		all = append(all, warn("settings", "choose another broker, unless this is a test", "broker is gochannel: messages are lost when the process ends, and no other process can send any"))
	}
	return append(all, ok("settings", "%d set, the others have their defaults", given))
}

// owner compares the database with the one that the broker knows.
func (x *examination) owner(db databaseFound, b brokerFound) []Finding {
	switch kept := b.Owner; {
	case !b.reached:
		return nil
	case kept.Database == "":
		return []Finding{ok("owner", "no database owns the commands yet: the first service that starts does")}
	case db.id == "":
		return []Finding{warn("owner", "see the database above; if it is new: timer-service serve --takeover", "the commands belong to %s (id %s), and this database has no id", kept.Name, kept.Database)}
	case kept.Database != db.id:
		return []Finding{bad("owner", "use that database, or start once with --takeover",
			"the commands belong to %s (id %s), this is %s (id %s)", kept.Name, kept.Database, db.name, db.id)}
	}
	return []Finding{ok("owner", "the commands belong to this database, id %s", db.id)}
}

// Differences of clocks.
const (
	noticeable  = time.Second
	intolerable = time.Minute
)

// clock compares the clock of this machine with others.
func (x *examination) clock(db databaseFound, b brokerFound) []Finding {
	const check, do = "clock", "compare with a right clock (chronyc tracking, timedatectl), and set the one that is wrong"
	var all []Finding
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
			all = append(all, bad(check, do, "this machine is %v %s %s", abs.Round(time.Second), side, other.of))
		case abs >= noticeable:
			all = append(all, warn(check, do, "this machine is %v %s %s: timers are early or late by that", abs.Round(time.Millisecond), side, other.of))
		default:
			all = append(all, ok(check, "that of %s agrees to less than a second", other.of))
		}
	}
	if all == nil {
		all = []Finding{ok(check, "there is no other one to compare with: see that this machine keeps its own right")}
	}
	return all
}

// backup counts the timers that could not be read again from the broker.
func (x *examination) backup(ctx context.Context, db databaseFound, b brokerFound) []Finding {
	const check = "backup"
	do := "make backups: set backup_every, or timer-service backup"
	if !x.cfg.DBURL.Empty() {
		do = "make backups: pg_dump, or those of your provider"
	}
	var found timer.Unprotected
	var err error
	switch {
	case db.store == nil:
		return nil
	case x.cfg.Broker == config.GoChannel, b.reached && !b.Rereads:
		var s timer.Stats
		s, err = db.store.Stats(ctx)
		found.Timers = s.Scheduled
	case !b.reached || b.Oldest.IsZero():
		return []Finding{ok(check, "unknown, backup only: the broker does not say how old its oldest message is")}
	default:
		found, err = db.store.RegisteredBefore(ctx, b.Oldest.Add(-publishDelay), maxUnprotected)
		found.Before = b.Oldest
	}
	found.At = time.Now()
	switch {
	case err != nil:
		return []Finding{warn(check, do, "how many timers only a backup protects is unknown: %v", err)}
	case found.Timers > 0 && !found.Before.IsZero():
		return []Finding{warn(check, do, "%v", found)}
	}
	return []Finding{ok(check, "%v", found)}
}
