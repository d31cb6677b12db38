package outbox_test

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/logbuf"
	"github.com/event-service-agent/timer-service/internal/longtest"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/timer"
)

// A table is an outbox in memory. The stores prove their own in storetest; here it
// must fail, and show its changes.
type table struct {
	fail func(op string) error // nil: nothing fails

	mu        sync.Mutex
	seq       int64
	refuse    func(outbox.Place) error // why a row can't be deleted
	rows      []outbox.Row             // in order
	deferred  map[int64]*entry
	unclaimed map[int64]outbox.Row
	due       map[string]*queue // of each destination
	deleted   []int64
	called    map[string]int // by operation
	parked    map[int64]string
}

// An entry is a deferred row.
type entry struct {
	outbox.Row
	at time.Time
}

// append adds a row for each payload, which is its tenant, and its topic in most tests.
func (t *table) append(payloads ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, payload := range payloads {
		t.seq++
		m := message.NewMessage("id-"+strconv.FormatInt(t.seq, 10), []byte(payload))
		tenant, call, _ := strings.Cut(payload, "/")
		m.Metadata.Set(envelope.HeaderTenantID, tenant)
		m.Metadata.Set(envelope.HeaderServiceCallID, call)
		t.rows = append(t.rows, outbox.Row{Place: outbox.Place{Seq: t.seq}, Message: m})
	}
}

// add appends rows and notifies a forwarder of them.
func (t *table) add(f interface{ Appended(int) }, payloads ...string) {
	t.append(payloads...)
	f.Appended(len(payloads))
}

// calls returns how often some operations were called.
func (t *table) calls(ops ...string) (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, op := range ops {
		n += t.called[op]
	}
	return n
}

func (t *table) failing(op string) error {
	t.mu.Lock()
	if t.called == nil {
		t.called = make(map[string]int)
	}
	t.called[op]++
	fail := t.fail
	t.mu.Unlock()
	if fail == nil {
		return nil
	}
	return fail(op)
}

func (t *table) Head(_ context.Context, after int64, limit int) ([]outbox.Row, error) {
	if err := t.failing("head"); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	first, _ := slices.BinarySearchFunc(t.rows, after+1, func(r outbox.Row, seq int64) int { return cmp.Compare(r.Seq, seq) })
	return slices.Clone(t.rows[first:min(first+limit, len(t.rows))]), nil
}

func (t *table) Deferred(_ context.Context, now time.Time, from string, limit, each int) (rows []outbox.Row, _ error) {
	if err := t.failing("deferred"); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, destination := range slices.Sorted(maps.Keys(t.due)) {
		q := t.due[destination]
		if destination < from {
			continue
		}
		for _, e := range (*q)[:min(each, q.until(now))] {
			if len(rows) < limit {
				rows = append(rows, e.Row)
			}
		}
	}
	return rows, nil
}

func (t *table) NextRetry(_ context.Context, after time.Time) (next time.Time, _ error) {
	if err := t.failing("next_retry"); err != nil {
		return next, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, q := range t.due {
		if i := q.until(after); i < len(*q) && (next.IsZero() || (*q)[i].at.Before(next)) {
			next = (*q)[i].at
		}
	}
	return next, nil
}

func (t *table) Delete(_ context.Context, rows ...outbox.Place) error {
	if err := t.failing("delete"); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, row := range rows {
		if t.refuse != nil && t.refuse(row) != nil {
			return t.refuse(row)
		}
	}
	t.remove(rows...)
	for _, row := range rows {
		t.deleted = append(t.deleted, row.Seq)
	}
	return nil
}

func (t *table) remove(rows ...outbox.Place) {
	gone := make(map[int64]bool)
	for _, row := range rows {
		if !row.Deferred {
			gone[row.Seq] = true
		} else if e := t.deferred[row.Seq]; e != nil {
			t.due[e.Destination].remove(e)
			delete(t.deferred, row.Seq)
		}
	}
	if len(gone) > 0 {
		t.rows = slices.DeleteFunc(t.rows, func(r outbox.Row) bool { return gone[r.Seq] })
	}
}

func (t *table) Defer(_ context.Context, rows ...outbox.Deferral) error {
	if err := t.failing("defer"); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.deferred == nil {
		t.deferred, t.due, t.unclaimed = make(map[int64]*entry), make(map[string]*queue), make(map[int64]outbox.Row)
	}
	found := make(map[outbox.Place]outbox.Row)
	for _, d := range rows {
		if d.Deferred {
			if e := t.deferred[d.Seq]; e != nil {
				found[d.Place] = e.Row
			}
		} else if i, is := slices.BinarySearchFunc(t.rows, d.Seq, func(r outbox.Row, seq int64) int { return cmp.Compare(r.Seq, seq) }); is {
			found[d.Place] = t.rows[i]
		}
	}
	t.remove(slices.Collect(maps.Keys(found))...)
	for _, d := range rows {
		row, is := found[d.Place]
		if !is {
			continue
		}
		row.Attempts += d.Attempts()
		row.Destination, row.Deferred = d.Destination, true
		if d.Unclaimed {
			t.unclaimed[d.Seq] = row
			continue
		}
		e := &entry{Row: row, at: d.RetryAt}
		t.deferred[d.Seq] = e
		if t.due[d.Destination] == nil {
			t.due[d.Destination] = new(queue)
		}
		t.due[d.Destination].add(e)
	}
	return nil
}

// Claim moves unclaimed rows to the end of the others.
func (t *table) Claim(_ context.Context, prefix string, limit int) (claimed int, _ error) {
	if err := t.failing("claim"); err != nil {
		return 0, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, seq := range slices.Sorted(maps.Keys(t.unclaimed)) {
		row := t.unclaimed[seq]
		if claimed == limit || !strings.HasPrefix(row.Destination, prefix) {
			continue
		}
		claimed++
		delete(t.unclaimed, seq)
		t.seq++
		row.Place, row.Destination = outbox.Place{Seq: t.seq}, ""
		t.rows = append(t.rows, row)
	}
	return claimed, nil
}

func (t *table) Hasten(_ context.Context, now time.Time) error {
	if err := t.failing("hasten"); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range t.deferred {
		if e.at.After(now) && !strings.HasPrefix(e.Destination, outbox.Snoozed) {
			t.due[e.Destination].remove(e)
			e.at = now
			t.due[e.Destination].add(e)
		}
	}
	return nil
}

func (t *table) Park(_ context.Context, _ time.Time, row outbox.Place, reason string) error {
	if err := t.failing("park"); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.remove(row)
	if t.parked == nil {
		t.parked = make(map[int64]string)
	}
	t.parked[row.Seq] = reason
	return nil
}

// left returns the numbers of all rows that wait.
func (t *table) left() []int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	seqs := slices.Concat(slices.Collect(maps.Keys(t.deferred)), slices.Collect(maps.Keys(t.unclaimed)))
	for _, r := range t.rows {
		seqs = append(seqs, r.Seq)
	}
	slices.Sort(seqs)
	return seqs
}

// emptied waits until no row is left, not even a deferred one.
func (t *table) emptied() {
	for len(t.left()) > 0 {
		time.Sleep(time.Second)
	}
	synctest.Wait()
}

// A queue has the earliest entry first.
type queue []*entry

func (q queue) find(e *entry) (place int) {
	place, _ = slices.BinarySearchFunc(q, e, func(a, b *entry) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.Seq, b.Seq)) })
	return place
}

// until returns how many entries are not after a time.
func (q *queue) until(at time.Time) int {
	return q.find(&entry{Row: outbox.Row{Place: outbox.Place{Seq: math.MaxInt64}}, at: at})
}

func (q *queue) add(e *entry) { *q = slices.Insert(*q, q.find(e), e) }

func (q *queue) remove(e *entry) {
	place := q.find(e) // near the beginning: those before it move
	copy((*q)[1:], (*q)[:place])
	(*q)[0] = nil
	*q = (*q)[1:]
}

// A model is a publisher that remembers the messages that it took, and when.
type model struct {
	publish func(m broker.Message) error         // nil: all is well
	takes   func(m broker.Message) time.Duration // nil: no time; a message that takes longer than its context has no result
	asking  sync.Mutex                           // the two are asked for one message at a time, though publishes overlap

	mu     sync.Mutex
	ids    map[string][]string // by topic, in the order of the acks
	times  map[string]time.Time
	topics map[string]time.Time // when a message of the topic was published, last
	failed map[string]bool      // messages with a result that was an error
	calls  int
}

// failIf returns a publish that fails for some messages.
func failIf(err error, fails func(broker.Message) bool) func(broker.Message) error {
	return func(m broker.Message) error {
		if fails(m) {
			return err
		}
		return nil
	}
}

func (p *model) Publish(ctx context.Context, messages ...broker.Message) []error {
	errs, taken, longest := make([]error, len(messages)), make([]time.Duration, len(messages)), time.Duration(0)
	p.asking.Lock()
	for i, m := range messages {
		if p.publish != nil {
			errs[i] = p.publish(m)
		}
		if p.takes != nil {
			taken[i] = p.takes(m)
			longest = max(longest, taken[i])
		}
	}
	p.asking.Unlock()
	began := time.Now()
	p.settle(messages, errs, func(i int) bool { return taken[i] == 0 })
	if longest > 0 {
		select {
		case <-time.After(longest):
		case <-ctx.Done():
		}
		for i := range messages {
			if taken[i] > time.Since(began) {
				errs[i] = ctx.Err()
			}
		}
		p.settle(messages, errs, func(i int) bool { return taken[i] > 0 })
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	return errs
}

// settle notes the results of some messages, which are known now.
func (p *model) settle(messages []broker.Message, errs []error, known func(i int) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ids == nil {
		p.ids, p.failed = make(map[string][]string), make(map[string]bool)
		p.times, p.topics = make(map[string]time.Time), make(map[string]time.Time)
	}
	for i, m := range messages {
		switch {
		case !known(i):
		case errs[i] != nil:
			p.failed[m.UUID] = true
		default:
			p.ids[m.Topic] = append(p.ids[m.Topic], m.UUID)
			p.times[m.UUID], p.topics[m.Topic] = time.Now(), time.Now()
		}
	}
}

// at returns when a message was published, last.
func (p *model) at(id string) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.times[id]
}

// count returns how often each message was published.
func (p *model) count() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	count := make(map[string]int)
	for _, ids := range p.ids {
		for _, id := range ids {
			count[id]++
		}
	}
	return count
}

func payload(m *message.Message) string { return string(m.Payload) }

// inBubble runs a test with an outbox and a broker, in a bubble.
func inBubble(t *testing.T, test func(t *testing.T, l *table, p *model)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(t, new(table), new(model)) })
}

// wait lets time go by.
func wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// forward runs a forwarder until the bubble ends.
func forward(t *testing.T, table outbox.Table, p broker.Publisher, opt outbox.Options) *outbox.Forwarder {
	f, _ := forwardUntil(t, table, p, opt)
	return f
}

// forwardUntil runs a forwarder until stop is called or the bubble ends.
func forwardUntil(t *testing.T, table outbox.Table, p broker.Publisher, opt outbox.Options) (_ *outbox.Forwarder, stop func()) {
	return newForwarderUntil(t, outbox.Outbox{Table: table}, p, opt)
}

// logged is forwardUntil with the log of the forwarder.
func logged(t *testing.T, table outbox.Table, p broker.Publisher, opt outbox.Options) (f *outbox.Forwarder, log *logbuf.Buffer, stop func()) {
	log = new(logbuf.Buffer)
	f = outbox.New(outbox.Outbox{Table: table}, p, payload, timer.ClockFunc(time.Now), slog.New(slog.NewTextHandler(log, nil)), opt)
	return f, log, start(t, f)
}

func newForwarder(t *testing.T, o outbox.Outbox, p broker.Publisher, opt outbox.Options) *outbox.Forwarder {
	f, _ := newForwarderUntil(t, o, p, opt)
	return f
}

func newForwarderUntil(t *testing.T, o outbox.Outbox, p broker.Publisher, opt outbox.Options) (_ *outbox.Forwarder, stop func()) {
	f := outbox.New(o, p, payload, timer.ClockFunc(time.Now), slog.New(slog.DiscardHandler), opt)
	return f, start(t, f)
}

// start runs a forwarder until stop is called or the bubble ends.
func start(t *testing.T, f *outbox.Forwarder) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func TestMain(m *testing.M) { os.Exit(longtest.Simulating(m)) }
