package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/timer"
)

// statsTimeout is how long the database may take to answer a collection. Without an
// answer its metrics are missing, the others are there.
const statsTimeout = 2 * time.Second

// Sources are asked when metrics are collected.
type Sources struct {
	Stats     func(context.Context) (timer.Stats, error) // what the store holds
	Status    func() app.Status                          // how poller and forwarder are
	Ready     func() map[string]bool                     // whether each part is green, by its name
	Instances func() int                                 // instances on the database
	Recovery  func() *app.RecoveryProgress               // how far a recovery is; nil if none is under way

	Unprotected func() timer.Unprotected // timers that only a backup protects; nil if that is not known
	Full        func() float64           // how much of what the broker takes is used, from 0 to 1; nil if that is not known
	Disk        func() float64           // how much of the file system of the database is used, from 0 to 1; nil if that is not known
	Backups     func() Backups           // the copies that are made of the database; nil if none are
}

// Backups are the copies that are made of a database.
type Backups struct {
	Age      time.Duration // of the newest good copy; if there is none, since when they are made
	Every    time.Duration // how often one is made
	Bytes    int64         // size of the newest good copy
	Failures int64         // copies that failed, since the start
}

// SourcesOf returns those of an app on a store.
func SourcesOf(a *app.App, s app.Store) Sources {
	return Sources{
		Stats: s.Stats, Status: a.Status, Instances: s.Instances, Recovery: a.Recovery,
		Ready: func() map[string]bool {
			green := make(map[string]bool)
			for _, c := range a.Checks(context.Background()) {
				green[c.Part] = !c.Red
			}
			return green
		},
	}
}

// Observe has the sources asked at each collection from now on. It is called once.
func (t *Telemetry) Observe(s Sources) error {
	o := &observer{meter: t.meter, counters: t.counters, sources: s}
	o.counter("timer.commands.received", "{command}", "Deliveries of commands, by type.")
	o.counter("timer.schedules.processed", "{command}", "What became of deliveries of commands, by type and outcome.")
	o.counter("timer.events.reached", "{event}", "Timers that fired.")
	o.counter("timer.events.published", "{event}", "Events that the broker acked.")
	o.counter("timer.events.parked", "{event}", "Events that the broker refused for good, since the start.")
	o.counter("timer.clock.jumps", "{jump}", "Jumps of the clock that paused firing.")
	o.gauge("timer.timers", "{timer}", "Timers in the database, by state.")
	o.gauge("timer.outbox.depth", "{event}", "Events that wait for the broker.")
	o.gauge("timer.outbox.parked", "{event}", "Events in the database that the broker refused for good.")
	o.gauge("timer.ready", "1", "Whether each part of the service is green: 1 or 0.")
	o.gauge("timer.firing.paused", "{pause}", "Whether people have paused firing: 1 or 0.")
	o.gauge("timer.instances", "{instance}", "Instances that share the database.")
	o.gauge("timer.recovery.ahead", "{command}", "Commands at the broker that a recovery of the database has still to read, about; 0 if none is under way.")
	o.seconds("timer.overdue.age", "How long the oldest timer has been due that has not fired; 0 if none is.")
	o.seconds("timer.outbox.age", "How long the oldest event has waited for the broker; 0 if none does.")
	o.seconds("timer.poll.age", "How long ago the next poll should have begun, or how long the last one takes so far; 0 if all is well.")
	if s.Unprotected != nil {
		o.gauge("timer.unprotected.timers", "{timer}", "Timers that wait and that only a backup protects: the broker does not have their commands.")
		o.seconds("timer.unprotected.oldest.age", "How old the oldest of their commands is; 0 if there is none.")
	}
	if s.Full != nil {
		o.float("timer.broker.used", "1", "How much of what the broker takes at most is used: 1 is full, 0 also stands for no limit.")
	}
	if s.Disk != nil {
		o.float("timer.database.disk.used", "1", "How much of the file system of the database is used: 1 is full.")
	}
	if s.Backups != nil {
		o.seconds("timer.backup.age", "How old the newest good copy of the database is; if there is none, how long copies have been due.")
		o.seconds("timer.backup.interval", "How often a copy of the database is made: backup_every.")
		o.gauge("timer.backup.size", "By", "Size of the newest good copy of the database.")
		o.counter("timer.backup.failures", "{copy}", "Copies of the database that failed, since the start.")
	}
	if o.err != nil {
		return o.err
	}
	_, err := o.meter.RegisterCallback(o.observe, o.all...)
	return err
}

// An observer is what collects.
type observer struct {
	meter    metric.Meter
	counters *app.Counters
	sources  Sources

	ints   map[string]metric.Int64Observable
	floats map[string]metric.Float64Observable
	all    []metric.Observable
	err    error
}

func (o *observer) counter(name, unit, about string) {
	c, err := o.meter.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(about))
	o.addInt(name, c, err)
}

func (o *observer) gauge(name, unit, about string) {
	g, err := o.meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(about))
	o.addInt(name, g, err)
}

func (o *observer) addInt(name string, i metric.Int64Observable, err error) {
	if err != nil {
		o.err = err
		return
	}
	if o.ints == nil {
		o.ints = make(map[string]metric.Int64Observable)
	}
	o.ints[name] = i
	o.all = append(o.all, i)
}

func (o *observer) seconds(name, about string) { o.float(name, "s", about) }

func (o *observer) float(name, unit, about string) {
	g, err := o.meter.Float64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(about))
	if err != nil {
		o.err = err
		return
	}
	if o.floats == nil {
		o.floats = make(map[string]metric.Float64Observable)
	}
	o.floats[name] = g
	o.all = append(o.all, g)
}

// observe answers one collection.
func (o *observer) observe(ctx context.Context, to metric.Observer) error {
	number := func(name string, n int64, pairs ...string) { to.ObserveInt64(o.ints[name], n, label(pairs...)) }
	seconds := func(name string, d time.Duration) { to.ObserveFloat64(o.floats[name], max(0, d).Seconds()) }

	received := make(map[string]int64)
	for r, n := range o.counters.Commands() {
		received[r.Type] += n
		number("timer.schedules.processed", n, "type", r.Type, "outcome", r.Outcome)
	}
	for kind, n := range received {
		number("timer.commands.received", n, "type", kind)
	}
	number("timer.events.reached", o.counters.Reached())
	number("timer.events.published", o.counters.Forwarded())
	number("timer.events.parked", o.counters.Parked())

	status := o.sources.Status()
	number("timer.clock.jumps", status.Poller.Jumps)
	seconds("timer.poll.age", status.Poller.Late())
	paused := int64(0)
	if status.Poller.Paused.Paused() {
		paused = 1
	}
	number("timer.firing.paused", paused)
	ahead := int64(0)
	if p := o.sources.Recovery(); p != nil {
		ahead = p.Ahead
	}
	number("timer.recovery.ahead", ahead)
	number("timer.instances", int64(o.sources.Instances()))
	for part, green := range o.sources.Ready() {
		n := int64(0)
		if green {
			n = 1
		}
		number("timer.ready", n, "part", part)
	}

	if o.sources.Unprotected != nil {
		if u := o.sources.Unprotected(); !u.At.IsZero() {
			number("timer.unprotected.timers", u.Timers)
			seconds("timer.unprotected.oldest.age", age(time.Now(), u.Oldest))
		}
	}
	if o.sources.Full != nil {
		to.ObserveFloat64(o.floats["timer.broker.used"], o.sources.Full())
	}
	if o.sources.Disk != nil {
		to.ObserveFloat64(o.floats["timer.database.disk.used"], o.sources.Disk())
	}
	if o.sources.Backups != nil {
		b := o.sources.Backups()
		seconds("timer.backup.age", b.Age)
		seconds("timer.backup.interval", b.Every)
		number("timer.backup.size", b.Bytes)
		number("timer.backup.failures", b.Failures)
	}

	ctx, cancel := context.WithTimeout(ctx, statsTimeout)
	defer cancel()
	s, err := o.sources.Stats(ctx)
	if err != nil {
		return nil //nolint:nilerr // timer.ready says it
	}
	now := time.Now()
	number("timer.timers", s.Scheduled, "state", "Scheduled")
	number("timer.timers", s.Reached, "state", "Reached")
	number("timer.timers", s.Canceled, "state", "Canceled")
	number("timer.outbox.depth", s.Outbox)
	number("timer.outbox.parked", s.Parked)
	seconds("timer.overdue.age", age(now, s.NextDue))
	seconds("timer.outbox.age", age(now, s.Oldest))
	return nil
}

// age returns how long ago something was; zero if it is nothing, or ahead.
func age(now, then time.Time) time.Duration {
	if then.IsZero() {
		return 0
	}
	return max(0, now.Sub(then))
}
