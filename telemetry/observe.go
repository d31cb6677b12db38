package telemetry

import (
	"cmp"
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/timer"
)

// statsTimeout is how long the database may take to answer a collection. Without an answer
// its metrics are missing, but not the others.
const statsTimeout = 2 * time.Second

// Sources are asked when metrics are collected.
type Sources struct {
	Stats     func(context.Context, timer.TenantID) (timer.Stats, error) // counts in the store
	Status    func() app.Status                                          // state of poller and forwarder
	Checks    func() []app.Check                                         // whether each part is green
	Instances func() int                                                 // instances on the database
	Recovery  func() *app.RecoveryProgress                               // progress of a recovery; nil if none is running
	// Inbox counts the messages that wait, of a tenant or of all; nil if that is not known.
	Inbox func(context.Context, timer.TenantID) ([]timer.InboxCount, error)

	// Upcoming counts timers by when they are due, as [timer.Reader] does; nil if that is not known.
	Upcoming func(ctx context.Context, tenant timer.TenantID, from time.Time, width time.Duration, n, limit int) ([]int64, error)

	Unprotected func() timer.Unprotected // timers that only a backup protects; nil if that is not known
	Full        func() Limit             // the limit of the broker that is closest to be reached; nil if that is not known
	// Disk returns which part of the database's file system is used, from 0 to 1; nil if that
	// is not known.
	Disk    func() float64
	Log     func() int64   // size of the log of a SQLite database, in bytes; nil if there is none
	Backups func() Backups // copies of the database; nil if none are made
}

// A Limit is a limit of the broker.
type Limit struct {
	Name string  // for people; empty if none is known
	Used float64 // which part of it is used, from 0 to 1
}

// Backups describe the copies of a database.
type Backups struct {
	Age      time.Duration // of the newest good copy; if there is none, the time since copies are made
	Every    time.Duration // how often one is made
	Bytes    int64         // size of the newest good copy
	Failures int64         // copies that failed, since the start
}

// SourcesOf returns the sources of an app on a store.
func SourcesOf(a *app.App, s app.Store) Sources {
	return Sources{
		Stats: a.Reader().Stats, Status: a.Status, Instances: func() int { return app.InstancesOf(s) }, Recovery: a.Recovery,
		Checks: func() []app.Check { return a.Checks(context.Background()) }, Inbox: s.Inbox().InboxCounts, Upcoming: a.Reader().Upcoming,
	}
}

// Observe asks the sources at each collection from now on. It is called once.
func (t *Telemetry) Observe(s Sources) error {
	return errors.Join(
		observe(t.meter, asked(func() *app.Counters { return t.counters }), ofCounters),
		observe(t.meter, asked(func() Sources { return s }), ofSources),
		observe(t.meter, asked(s.Status), ofStatus),
		observe(t.meter, inTime(func(ctx context.Context) (timer.Stats, error) { return s.Stats(ctx, "") }), ofStats),
		observe(t.meter, waiting(s), ofInbox),
		observe(t.meter, dueSoon(s), ofDueSoon),
		observe(t.meter, asked(s.Unprotected), ofUnprotected),
		observe(t.meter, asked(s.Full), []observedMetric[Limit]{
			{gauge, "timer.broker.used", "1", "Used part of the capacity of the broker, by its limit that is closest: 1 is full, 0 also stands for no limit.", func(l Limit, to put) { to(l.Used, "limit", l.Name) }},
		}),
		observe(t.meter, asked(s.Disk), []observedMetric[float64]{
			{gauge, "timer.database.disk.used", "1", "How much of the file system of the database is used: 1 is full.", func(used float64, to put) { to(used) }},
		}),
		observe(t.meter, asked(s.Log), []observedMetric[int64]{
			{gauge, "timer.database.log.size", "By", "Size of the write-ahead log of the SQLite file.", func(bytes int64, to put) { to(float64(bytes)) }},
		}),
		observe(t.meter, asked(s.Backups), ofBackups),
	)
}

// inTime returns a function that asks a source of the database for as long as a collection may take.
// The metrics are left out if it returns an error, which timer.ready reports.
func inTime[S any](source func(context.Context) (S, error)) func(context.Context) (S, bool) {
	return func(ctx context.Context) (S, bool) {
		ctx, cancel := context.WithTimeout(ctx, statsTimeout)
		defer cancel()
		value, err := source(ctx)
		return value, err == nil
	}
}

// waiting returns a function that counts the messages that wait, or nil if that is not known.
func waiting(s Sources) func(context.Context) ([]timer.InboxCount, bool) {
	if s.Inbox == nil {
		return nil
	}
	return inTime(func(ctx context.Context) ([]timer.InboxCount, error) { return s.Inbox(ctx, "") })
}

// maxDueSoon is where counts of timers that fall due stop: a count up to it takes some 30 ms.
const maxDueSoon = 100_000

// windows are those in which timers that fall due are counted, by their names.
var windows = map[string]time.Duration{"1m": time.Minute, "10m": 10 * time.Minute, "1h": time.Hour}

// dueSoon returns a function that counts the timers that fall due in each window from now on, or
// nil if that is not known.
func dueSoon(s Sources) func(context.Context) (map[string]int64, bool) {
	if s.Upcoming == nil {
		return nil
	}
	return inTime(func(ctx context.Context) (map[string]int64, error) {
		due, now := make(map[string]int64), time.Now()
		for name, width := range windows {
			counts, err := s.Upcoming(ctx, "", now, width, 1, maxDueSoon)
			if err != nil {
				return nil, err
			}
			due[name] = counts[0]
		}
		return due, nil
	})
}

// A put records a value of a metric, with names and values of its labels.
type put func(n float64, labels ...string)

// An observedMetric is a metric of a source of type S.
type observedMetric[S any] struct {
	kind              kind
	name, unit, about string
	read              func(from S, to put) // puts the values; without any the metric is missing
}

// A kind makes the instrument of a metric.
type kind func(m metric.Meter, name, unit, about string) (metric.Float64Observable, error)

func counter(m metric.Meter, name, unit, about string) (metric.Float64Observable, error) {
	return m.Float64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(about))
}

func gauge(m metric.Meter, name, unit, about string) (metric.Float64Observable, error) {
	return m.Float64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(about))
}

var ofCounters = []observedMetric[*app.Counters]{
	{counter, "timer.commands.received", "{command}", "Deliveries of commands, by type.", func(c *app.Counters, to put) {
		received := make(map[string]int64)
		for r, n := range c.Commands() {
			received[r.Type] += n
		}
		for kind, n := range received {
			to(float64(n), "type", kind)
		}
	}},
	{counter, "timer.schedules.processed", "{command}", "What became of deliveries of commands, by type and outcome.", func(c *app.Counters, to put) {
		for r, n := range c.Commands() {
			to(float64(n), "type", r.Type, "outcome", r.Outcome)
		}
	}},
	{counter, "timer.dead_letters", "{message}", "Dead letters, by how much of them was kept: whole, headers or nothing.", func(c *app.Counters, to put) {
		for kept, n := range c.DeadLetters() {
			to(float64(n), "kept", kept)
		}
	}},
	{counter, "timer.events.reached", "{event}", "Timers that fired.", func(c *app.Counters, to put) { to(float64(c.Reached())) }},
	{counter, "timer.events.expired", "{event}", "Timers that expired before they could fire.", func(c *app.Counters, to put) { to(float64(c.Expired())) }},
	{counter, "timer.events.published", "{event}", "Events that the broker acked.", func(c *app.Counters, to put) { to(float64(c.Forwarded())) }},
	{counter, "timer.handler.failures", "{call}", "Calls of handlers of OnDue that failed, by the prefix of the handler.", func(c *app.Counters, to put) {
		for prefix, n := range c.HandlerFailures() {
			to(float64(n), "prefix", prefix)
		}
	}},
	{counter, "timer.events.parked", "{event}", "Events that the broker refused for good, since the start.", func(c *app.Counters, to put) { to(float64(c.Parked())) }},
}

var ofSources = []observedMetric[Sources]{
	{gauge, "timer.ready", "1", "Whether each part of the service is green: 1 or 0.", func(s Sources, to put) {
		for _, c := range s.Checks() {
			to(oneIf(!c.Red), "part", c.Part)
		}
	}},
	{gauge, "timer.instances", "{instance}", "Instances that share the database.", func(s Sources, to put) { to(float64(s.Instances())) }},
	{gauge, "timer.recovery.ahead", "{command}", "Commands at the broker that a recovery of the database has still to read, about; 0 if none is under way.", func(s Sources, to put) {
		to(float64(cmp.Or(s.Recovery(), &app.RecoveryProgress{}).Ahead))
	}},
}

var ofStatus = []observedMetric[app.Status]{
	{counter, "timer.clock.jumps", "{jump}", "Jumps of the clock that paused firing.", func(s app.Status, to put) { to(float64(s.Poller.Jumps)) }},
	{gauge, "timer.firing.paused", "{pause}", "Whether people have paused firing of all tenants: 1 or 0.", func(s app.Status, to put) {
		to(oneIf(s.Poller.Paused.Of("", time.Now()).Paused()))
	}},
	{gauge, "timer.firing.paused.tenants", "{tenant}", "Tenants whose firing people have paused.", func(s app.Status, to put) {
		n := len(s.Poller.Paused)
		if s.Poller.Paused[""].Paused() {
			n--
		}
		to(float64(n))
	}},
	{gauge, "timer.poll.age", "s", "How long ago the next poll should have begun, or how long the last one takes so far; 0 if all is well.", func(s app.Status, to put) {
		to(s.Poller.Late().Seconds())
	}},
}

var ofStats = []observedMetric[timer.Stats]{
	{gauge, "timer.timers", "{timer}", "Timers in the database, by state.", func(s timer.Stats, to put) {
		to(float64(s.Scheduled), "state", "Scheduled")
		to(float64(s.Reached), "state", "Reached")
		to(float64(s.Expired), "state", "Expired")
		to(float64(s.Canceled), "state", "Canceled")
	}},
	{gauge, "timer.outbox.depth", "{event}", "Events that wait for the broker.", func(s timer.Stats, to put) { to(float64(s.Outbox)) }},
	{gauge, "timer.outbox.parked", "{event}", "Events in the database that the broker refused for good.", func(s timer.Stats, to put) { to(float64(s.Parked)) }},
	{gauge, "timer.timers.held", "{timer}", "Timers that are due and wait, by reason: for the fire_rate of their tenant, or until firing is resumed.", func(s timer.Stats, to put) {
		to(float64(s.Held), "reason", "fire_rate")
		to(float64(s.Paused), "reason", "pause")
	}},
	{gauge, "timer.overdue.age", "s", "How long the oldest timer has been due that has not fired, and that neither a pause nor its tenant's fire_rate holds; 0 if none is.", func(s timer.Stats, to put) { to(age(s.NextDue)) }},
	{gauge, "timer.outbox.age", "s", "How long the oldest event has waited for the broker; 0 if none does.", func(s timer.Stats, to put) { to(age(s.Oldest)) }},
}

var ofInbox = []observedMetric[[]timer.InboxCount]{
	{gauge, "timer.inbox.messages", "{message}", "Messages that wait in the inbox, by reason: over the quota of their tenant, or since their handling failed.", func(counts []timer.InboxCount, to put) {
		sum := map[timer.WaitReason]int64{timer.WaitQuota: 0, timer.WaitFailed: 0}
		for _, c := range counts {
			sum[c.Reason] += c.Messages
		}
		for reason, n := range sum {
			to(float64(n), "reason", string(reason))
		}
	}},
	{gauge, "timer.inbox.size", "By", "Size of these messages.", func(counts []timer.InboxCount, to put) {
		bytes := int64(0)
		for _, c := range counts {
			bytes += c.Bytes
		}
		to(float64(bytes))
	}},
}

var ofDueSoon = []observedMetric[map[string]int64]{
	{gauge, "timer.due_soon", "{timer}", "Timers that fall due within a window from now on, at most 100,000: load that comes.", func(due map[string]int64, to put) {
		for window, n := range due {
			to(float64(n), "window", window)
		}
	}},
}

var ofUnprotected = []observedMetric[timer.Unprotected]{
	{gauge, "timer.unprotected.timers", "{timer}", "Timers that wait and that only a backup protects: the broker does not have their commands.", func(u timer.Unprotected, to put) {
		if !u.At.IsZero() {
			to(float64(u.Timers))
		}
	}},
	{gauge, "timer.unprotected.oldest.age", "s", "How old the oldest of their commands is; 0 if there is none.", func(u timer.Unprotected, to put) {
		if !u.At.IsZero() {
			to(age(u.Oldest))
		}
	}},
}

var ofBackups = []observedMetric[Backups]{
	{gauge, "timer.backup.age", "s", "How old the newest good copy of the database is; if there is none, how long copies have been due.", func(b Backups, to put) { to(b.Age.Seconds()) }},
	{gauge, "timer.backup.interval", "s", "How often a copy of the database is made: backup_every.", func(b Backups, to put) { to(b.Every.Seconds()) }},
	{gauge, "timer.backup.size", "By", "Size of the newest good copy of the database.", func(b Backups, to put) { to(float64(b.Bytes)) }},
	{counter, "timer.backup.failures", "{copy}", "Copies of the database that failed, since the start.", func(b Backups, to put) { to(float64(b.Failures)) }},
}

// asked returns a function that asks a source that always answers, or nil if there is no
// source.
func asked[S any](source func() S) func(context.Context) (S, bool) {
	if source == nil {
		return nil
	}
	return func(context.Context) (S, bool) { return source(), true }
}

// observe asks a source at each collection, once for all its metrics. It does nothing if ask
// is nil.
func observe[S any](meter metric.Meter, ask func(context.Context) (S, bool), metrics []observedMetric[S]) error {
	if ask == nil {
		return nil
	}
	instruments, all := make([]metric.Float64Observable, len(metrics)), make([]metric.Observable, len(metrics))
	for i, m := range metrics {
		var err error
		if instruments[i], err = m.kind(meter, m.name, m.unit, m.about); err != nil {
			return err
		}
		all[i] = instruments[i]
	}
	_, err := meter.RegisterCallback(func(ctx context.Context, to metric.Observer) error {
		from, ok := ask(ctx)
		if !ok {
			return nil
		}
		for i, m := range metrics {
			m.read(from, func(n float64, labels ...string) {
				to.ObserveFloat64(instruments[i], max(0, n), label(labels...))
			})
		}
		return nil
	}, all...)
	return err
}

// oneIf returns 1 for true and 0 for false.
func oneIf(so bool) float64 {
	if so {
		return 1
	}
	return 0
}

// age returns how many seconds ago a time was. It is negative if the time is ahead, and zero
// for the zero time.
func age(then time.Time) float64 {
	if then.IsZero() {
		return 0
	}
	return time.Since(then).Seconds()
}
