// Package outbox carries events from a transaction to the broker. [Append] writes
// them inside the transaction that changes the timer; the [Forwarder] publishes
// them in the order they were appended and deletes each, where it was read, after the
// broker's ack. A crash between the two publishes an event again under the same id.
//
//	Append ─► outbox ─► Publish ─► acked:   deleted
//	             ▲                 refused: parked after its last attempt
//	             └── broker away   failed:  deferred ─► Publish … until acked
//
// A row whose publish fails is deferred: it leaves the head of the outbox and is
// retried after a back-off of its own, so a failure costs the rows behind it
// nothing. The memory holds only which rows are in flight; the rest is in the table.
//
// Rows belong to a destination: a topic, a partition that fails alone, or a handler with a
// tenant. Destinations that work are published together. One that fails is left alone for a
// back-off, and then probed with a few of its rows in a publish of their own; as long as it takes
// some, the rows behind them follow. No other state of a destination is kept.
//
// With a [Handler] events go to a function of this process instead of the broker.
package outbox

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/option"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/timer"
)

// A Place is where a row is. Each of the two tables of a store, one for rows to be sent
// and one for rows that are deferred, has its own places: a database that lost count of
// its numbers may give one to a new row while an older row that is deferred still has it.
type Place struct {
	Shard    int
	Seq      int64 // number of the row, which rises
	Deferred bool
}

// A Run is rows of one table whose numbers have no gap.
type Run struct {
	First, Last int64
	Deferred    bool
}

// Runs returns rows of one shard as runs, mostly as a few: rows that are deferred come
// last, each kind in the order of its numbers.
func Runs(rows []Place) (runs []Run) {
	for _, row := range slices.SortedFunc(slices.Values(rows), byPlace) {
		if n := len(runs); n > 0 && runs[n-1].Deferred == row.Deferred && row.Seq <= runs[n-1].Last+1 {
			runs[n-1].Last = row.Seq
			continue
		}
		runs = append(runs, Run{row.Seq, row.Seq, row.Deferred})
	}
	return runs
}

// byPlace compares rows of one shard.
func byPlace(a, b Place) int {
	switch {
	case a.Deferred == b.Deferred:
		return cmp.Compare(a.Seq, b.Seq)
	case a.Deferred:
		return 1
	}
	return -1
}

// A Row is an event that waits for the broker.
type Row struct {
	Place
	Message     *message.Message // UUID is the event's id, Metadata its headers
	Attempts    int              // publishes that failed though the broker was available
	Destination string           // where the last of them failed; empty if the row is not deferred
	Err         error            // why its headers can't be read, and are missing from Message
}

// ReadRow reads an event that waits: its number, id, payload, headers, attempts and destination.
func ReadRow(scan func(columns ...any) error) (Row, error) {
	row := Row{Message: message.NewMessage("", nil)}
	m := row.Message
	var headers string
	if err := scan(&row.Seq, &m.UUID, (*[]byte)(&m.Payload), &headers, &row.Attempts, &row.Destination); err != nil {
		return row, err
	}
	if m.Metadata, row.Err = envelope.DecodeHeaders(headers); row.Err != nil {
		m.Metadata = message.Metadata{}
	}
	row.Deferred = row.Destination != ""
	return row, nil
}

// Snoozed begins the destination of a row that its handler wants later, see [timer.Later]. It
// sorts behind all other destinations, so that statements find and skip such rows.
const Snoozed = "~"

// A Deferral says when a row is published again, and why not now.
type Deferral struct {
	Place
	Destination string // topic, and partition if the broker names it: rows that fail together; or see [Snoozed]
	Reason      string
	RetryAt     time.Time
	Untried     bool // no attempt is counted
	Unclaimed   bool // no handler of this process wants it: it waits for Claim, and Destination is its service call
}

// Attempts returns how many attempts are counted.
func (d Deferral) Attempts() int {
	if d.Untried {
		return 0
	}
	return 1
}

// A Table is where rows wait. Rows to be sent are apart from rows that are deferred.
// All methods are safe for concurrent use. Rows that are gone are no error.
type Table interface {
	// Head returns the first rows behind the number given that are not deferred, in
	// the order of Seq. It only reads, and never waits for a writer. Rows appended by
	// transactions that commit late may have a lower number than rows read before.
	Head(ctx context.Context, after int64, limit int) ([]Row, error)

	// Deferred returns at most limit rows whose RetryAt is not after now. It visits the
	// destinations by name, from the one given on, and takes the rows with the earliest
	// RetryAt of each, up to the number each. It leaves out Unclaimed rows.
	Deferred(ctx context.Context, now time.Time, from string, limit, each int) ([]Row, error)

	// NextRetry returns the earliest RetryAt after a time, of the rows that Deferred returns, or
	// the zero time if there is none.
	NextRetry(ctx context.Context, after time.Time) (time.Time, error)

	// Delete removes rows.
	Delete(ctx context.Context, rows ...Place) error

	// Defer counts a failed attempt of rows that were tried, and keeps them away from Head from now on.
	Defer(ctx context.Context, rows ...Deferral) error

	// Claim moves at most limit Unclaimed rows whose service call has the prefix, from any
	// shard to the end of the rows to be sent. If several instances claim a row, one gets
	// it. Claim returns how many rows it has moved, and writes nothing if there are none.
	Claim(ctx context.Context, prefix string, limit int) (claimed int, err error)

	// Hasten makes all deferred rows due now, however long they were to wait, except
	// Unclaimed and [Snoozed] rows. Of many rows it changes some in each transaction.
	Hasten(ctx context.Context, now time.Time) error

	// Park takes a row out of the outbox for good and keeps it, with the reason,
	// for an operator.
	Park(ctx context.Context, now time.Time, row Place, reason string) error
}

// Behind returns the text behind all service calls that have a prefix, which are of ASCII.
func Behind(prefix string) string { return prefix + "\x7f" }

// A Taker takes events out of the outbox in a transaction of a host.
type Taker interface {
	// TakeEvent deletes the event of a row, and reports whether it was there: of several
	// transactions that try, one commits that.
	TakeEvent(ctx context.Context, tx *sql.Tx, row Place) (bool, error)
}

// An Outbox is the part of a store that the forwarder uses: a table, which one instance has for
// itself, or shards of one that several instances share. The other one is nil.
type Outbox struct {
	Taker  // takes events in transactions of the host; nil: there are no such transactions
	Table  Table
	Shards Shards
}

// Options tune a [Forwarder]. The zero value is ready to use.
type Options struct {
	Interval    time.Duration // longest time between polls of the outbox; default 5s, with shards at most 500ms
	Batch       int           // rows published at once; default 1000
	MaxAttempts int           // publishes of a refused row before it is parked; default 5
	Receivers   Receivers     // of this instance, for [Shards]
	Handlers    []Handler     // functions that get events in place of the broker, each with a prefix of its own; default none
	Grace       time.Duration // how long calls of a Handler may go on after the end of Run's context; default that of a publish

	// Published is called once for a batch, before its rows are deleted, with the events that
	// the broker has acked or a handler has handled, and the time of that. Batches may
	// overlap. It must not block, nor keep or change the events.
	Published func(at time.Time, events []*message.Message)

	// Settled is called for each event that the broker has acked, or a handler has handled, with
	// the time of that, before its row is deleted, and for each event whose row was parked, with
	// the reason. It must not block, nor keep or change the row.
	Settled func(at time.Time, topic string, row Row, parked error)
}

// StopTimeout is how long [Forwarder.Run] may take after the end of its
// context: half of it is for the broker, the rest for the table. With a
// [Handler] [Options].Grace takes the place of the first half, and Run waits for handlers
// that ignore the end of their context.
const StopTimeout = 1500 * time.Millisecond

const (
	drainPause   = 5 * time.Millisecond // between polls of an outbox that should become empty
	tableTimeout = 30 * time.Second     // longest read or change of the table
)

// A Forwarder publishes the rows of the outbox and deletes them after the broker's
// ack. No transaction waits for the network: while the broker is away, the
// application writes on. There must be one active Forwarder per table or shard:
// two would publish events twice.
type Forwarder struct {
	outbox Outbox
	pub    broker.Publisher
	topic  func(*message.Message) string
	clock  timer.Clock
	log    *slog.Logger
	opt    Options
	ready  chan struct{} // closed when own is set for the first time
	logs   logs

	interval time.Duration // pause between two polls for rows that are due again

	own   atomic.Pointer[sender] // of the table or the own shard; nil while it owns none
	owned sync.Once

	takenOver sync.Map // senders of abandoned shards
}

var errOver = errors.New("the shard of the outbox is lost")

// New returns a Forwarder that publishes each event to the topic that the function
// names for it. It starts nothing: call [Forwarder.Run], once.
func New(o Outbox, pub broker.Publisher, topic func(event *message.Message) string, clock timer.Clock, log *slog.Logger, opt Options) *Forwarder {
	option.Require("outbox.New", "publisher", pub, "function that names topics", topic, "clock", clock, "*slog.Logger", log)
	if o.Table == nil && o.Shards == nil {
		panic("outbox.New needs an Outbox with a Table, or with Shards")
	}
	opt.Interval = option.Positive(opt.Interval, 5*time.Second)
	if o.Shards != nil {
		opt.Interval = min(opt.Interval, sharedInterval)
	}
	opt.Batch = option.Positive(opt.Batch, 1000)
	opt.MaxAttempts = option.Positive(opt.MaxAttempts, 5)
	if opt.Published == nil {
		opt.Published = func(time.Time, []*message.Message) {}
	}
	if opt.Settled == nil {
		opt.Settled = func(time.Time, string, Row, error) {}
	}
	f := &Forwarder{
		outbox: o, pub: pub, topic: topic, clock: clock, log: log,
		logs: newLogs(log), ready: make(chan struct{}), interval: retryInterval,
	}
	if len(opt.Handlers) > 0 {
		f.interval = time.Second
	}
	if len(opt.Handlers) == 0 || opt.Grace <= 0 {
		opt.Grace = StopTimeout / 2
	}
	opt.Handlers = slices.SortedFunc(slices.Values(opt.Handlers), func(a, b Handler) int { return len(b.Prefix) - len(a.Prefix) })
	for i, h := range opt.Handlers {
		option.Require("outbox.Handler", "function Handle", h.Handle)
		h = h.withDefaults()
		h.queue = newQueue(h.Concurrency, max(opt.Batch/(2*len(opt.Handlers)), 1))
		opt.Handlers[i] = h
		f.interval = min(f.interval, max(h.MinDelay/4, retryInterval))
	}
	f.opt = opt
	if o.Table != nil {
		f.setOwn(newSender(f, o.Table))
	}
	return f
}

// Run forwards until ctx is done, then finishes the batches in flight within
// [StopTimeout] and returns nil. It returns an error only if that wraps
// [timer.ErrFatal].
func (f *Forwarder) Run(ctx context.Context) error {
	defer f.logs.flush()
	if f.outbox.Shards != nil {
		return f.runShards(ctx)
	}
	return f.own.Load().run(ctx)
}

// Ready is closed when events that are appended have a forwarder: at once with a
// table, and with shards when this instance owns one for the first time.
func (f *Forwarder) Ready() <-chan struct{} { return f.ready }

// Appended notifies the forwarder that rows were appended, after their commit. Receipts do
// not count for Waiting, so for them rows is 0, and the forwarder is only woken. Appended never
// blocks; a notification that is lost costs at most one interval.
func (f *Forwarder) Appended(rows int) {
	if s := f.own.Load(); s != nil {
		s.backlog.add(rows)
		s.wakeUp()
	}
}

// Wake makes the forwarder look for rows now, including rows that are due again by its
// clock, and delete the acked ones. It never blocks.
func (f *Forwarder) Wake() {
	for _, s := range f.senders() {
		s.wakeUp()
		notify(s.retry)
		notify(s.flush)
	}
}

// senders returns the sender of the own table or shard, and those of abandoned shards.
func (f *Forwarder) senders() (all []*sender) {
	if s := f.own.Load(); s != nil {
		all = append(all, s)
	}
	f.takenOver.Range(func(s, _ any) bool {
		all = append(all, s.(*sender))
		return true
	})
	return all
}

// Waiting returns how many of the rows that it was notified of it has not read yet. It
// returns [math.MaxInt] until it has read to the last row once, since older rows may wait
// there, and while it owns no shard. Deferred rows do not count.
func (f *Forwarder) Waiting() int {
	if s := f.own.Load(); s != nil {
		return s.backlog.waiting()
	}
	return math.MaxInt
}

// Next returns when the first row of the table, or of the own shard, is due: now if there is one
// at the head, the zero time if there is none at all.
func (f *Forwarder) Next(ctx context.Context) (time.Time, error) {
	s := f.own.Load()
	if s == nil {
		return time.Time{}, nil
	}
	if rows, err := s.table.Head(ctx, 0, 1); err != nil || len(rows) > 0 {
		return s.clock.Now(), err
	}
	return s.table.NextRetry(ctx, time.Time{})
}

// Drain waits until the table, or the own shard, is empty, except for deferred rows that have
// failed for long, or that the broker has refused. It returns the error of ctx if that ends
// first, and nil at once if no shard was ever owned. Run must be running, and nothing should
// append any more.
func (f *Forwarder) Drain(ctx context.Context) error {
	select {
	case <-f.ready:
	default:
		return nil
	}
	for {
		if s := f.own.Load(); s != nil {
			if !s.awaited(ctx) {
				return nil
			}
			s.wakeUp()
		}
		if !pause.For(ctx, drainPause) {
			return ctx.Err()
		}
	}
}

// setOwn sets which sender has the own shard; nil for none.
func (f *Forwarder) setOwn(s *sender) {
	f.own.Store(s)
	if s != nil {
		f.owned.Do(func() { close(f.ready) })
	}
}

// A backlog counts the rows at the head of a table that a sender has not read yet.
// Deferred rows do not count, since they delay no others, nor do receipts, since firing
// makes none. The zero value is for a sender that has read nothing.
type backlog struct {
	mu       sync.Mutex
	appended int   // rows that the sender was notified of
	seen     int   // rows that it has read; may be ahead of appended
	newest   int64 // the last row that it has read
	started  bool
	complete bool // it has read up to the last row once; before, the number of rows is not known
}

// add notes that rows were appended.
func (b *backlog) add(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.appended += n
}

// notified returns how many rows were appended, for observe.
func (b *backlog) notified() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.appended
}

// observe notes rows that were read, and whether they end with the last row of the table.
// Then all rows that were appended before the read count as seen.
func (b *backlog) observe(rows []Row, appended int, last bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, row := range rows {
		if row.Seq > b.newest {
			b.newest = row.Seq
			if !IsReceipt(row.Message) {
				b.seen++
			}
		}
	}
	b.started = true
	if last {
		b.complete = true
		b.seen = appended
	}
}

// waiting returns how many rows wait, or [math.MaxInt] if that is not known.
func (b *backlog) waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.started && !b.complete {
		return math.MaxInt
	}
	return max(0, b.appended-b.seen)
}
