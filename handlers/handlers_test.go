package handlers_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

var (
	noon      = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	routing   = broker.Routing{Commands: "timer.commands", Events: "svc.{tenant}.serviceCall", DeadLetters: "svc.{tenant}.dlq"}
	perTenant = broker.Routing{
		Commands: "svc.{tenant}.timer", Events: "svc.{tenant}.serviceCall", DeadLetters: "svc.{tenant}.dlq", Wildcard: "*",
	}
	command = timer.ScheduleTimer{
		Key:     timer.Key{TenantID: "acme", ServiceCallID: "order-1"},
		Version: timer.Version{TimestampMS: noon.UnixMilli() + 1, CommandID: "c-1"},
		DueAt:   noon.Add(time.Hour),
	}
)

// A harness is a subscriber, a publisher and a store in one: it delivers messages
// by hand, keeps published messages, and applies commands as the test says.
type harness struct {
	in      chan *message.Message
	apply   func(command any) error
	works   func(context.Context) error // answer of the store whether it works; nil: it is not asked
	batched bool                        // with group commit

	inbox   timer.Inbox
	full    error // of each message that is put into the inbox
	limits  handlers.InboxLimits
	letters handlers.DeadLetterLimits
	place   func(topic, position string) (log string, number int64, ok bool)
	ticks   bool         // the clock goes on; otherwise it is noon
	ahead   atomic.Int64 // how far the clock that goes on is ahead

	ignoreOthers bool
	clockBehind  func(context.Context) bool
	horizon      time.Duration
	quotas       *quota.Limiter
	timers       timer.Reader
	log          slog.Handler
	trace        handlers.Trace
	receipts     handlers.Receipts

	middleware []message.HandlerMiddleware
	publish    func(ctx context.Context, topic string, msg *message.Message) error

	mu      sync.Mutex
	applied []any
	commits []int    // commands of each
	ways    []string // of each call of the store: by group commit or alone
	dead    []*message.Message
	topics  []string
	results []handlers.Result
	kept    []string // how much of each dead letter
	wakes   []time.Time
}

func newHarness() *harness {
	return &harness{in: make(chan *message.Message), log: slog.DiscardHandler, horizon: 24 * time.Hour}
}

// inBubble runs a test with a harness, in a bubble.
func inBubble(t *testing.T, test func(t *testing.T, d *harness)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(t, newHarness()) })
}

func (d *harness) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	out := make(chan *message.Message)
	go func() {
		defer close(out)
		for {
			select {
			case <-ctx.Done():
				return
			case m := <-d.in:
				if m.Context() == context.Background() {
					m.SetContext(ctx)
				}
				out <- m
			}
		}
	}()
	return out, nil
}

func (d *harness) Close() error { return nil }

func (d *harness) Publish(ctx context.Context, messages ...broker.Message) []error {
	results := make([]error, len(messages))
	for i, m := range messages {
		if d.publish != nil {
			results[i] = d.publish(ctx, m.Topic, m.Message)
		}
		if results[i] == nil {
			d.mu.Lock()
			d.dead, d.topics = append(d.dead, m.Message), append(d.topics, m.Topic)
			d.mu.Unlock()
		}
	}
	return results
}

func (d *harness) Schedule(_ context.Context, _ time.Time, commands ...timer.ScheduleTimer) ([]timer.Result, error) {
	return d.schedule("alone", commands)
}

func (d *harness) schedule(way string, commands []timer.ScheduleTimer) ([]timer.Result, error) {
	d.mu.Lock()
	d.ways = append(d.ways, way)
	d.mu.Unlock()
	results, err := take(d, timer.DidSchedule, commands)
	for first, end := 0, 0; err == nil && first < len(commands); first = end { // those of one message are refused together
		end = first + timer.MessageLen(commands[first:])
		if i := slices.IndexFunc(results[first:end], func(r timer.Result) bool { return r.Err != nil }); i >= 0 {
			copy(results[first:end], slices.Repeat(results[first+i:first+i+1], end-first))
		}
	}
	return results, err
}

func (d *harness) Cancel(_ context.Context, _ time.Time, commands ...timer.CancelTimer) ([]timer.Result, error) {
	return take(d, timer.DidCancel, commands)
}

func (d *harness) PutInbox(ctx context.Context, _ time.Time, messages ...timer.InboxMessage) error {
	if d.full != nil {
		return d.full
	}
	return d.inbox.PutInbox(ctx, messages...)
}

// take applies commands. Those for which apply returns an ErrInvalid are refused;
// with any other error none is applied.
func take[C any](d *harness, outcome timer.Outcome, commands []C) (results []timer.Result, err error) {
	var applied []any
	for _, c := range commands {
		if d.apply != nil {
			err = d.apply(c)
		}
		switch {
		case errors.Is(err, timer.ErrInvalid):
			results = append(results, timer.Result{Err: err})
		case err != nil:
			return nil, err
		default:
			applied, results = append(applied, c), append(results, timer.Result{Outcome: outcome})
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.applied = append(d.applied, applied...)
	d.commits = append(d.commits, len(commands))
	return results, nil
}

// An inner is the harness as the store below a group commit.
type inner struct {
	timer.Store
	d *harness
}

func (i inner) Schedule(_ context.Context, _ time.Time, commands ...timer.ScheduleTimer) ([]timer.Result, error) {
	return i.d.schedule("batch", commands)
}

func (i inner) Cancel(ctx context.Context, now time.Time, commands ...timer.CancelTimer) ([]timer.Result, error) {
	return i.d.Cancel(ctx, now, commands...)
}

// run starts handlers on the harness, and stops them when the test ends.
func (d *harness) run(t *testing.T, r broker.Routing) *handlers.Handlers {
	h, stop, ended := d.start(t, r)
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return h
}

// start starts handlers, which send what Run returns after stop.
func (d *harness) start(t *testing.T, r broker.Routing) (h *handlers.Handlers, stop func(), ended <-chan error) {
	inbox := d.openInbox(t)
	var s handlers.Store = d
	if d.batched {
		s = store.NewBatch(inner{d: d}, inbox, 0)
	}
	var clock timer.Clock = timer.ClockFunc(func() time.Time { return noon })
	if d.ticks {
		began := time.Now()
		clock = timer.ClockFunc(func() time.Time { return noon.Add(time.Since(began) + time.Duration(d.ahead.Load())) })
	}
	h = handlers.New(s, inbox, r, d, d, clock, slog.New(d.log), handlers.Options{
		Waiting: d.limits, DeadLetters: d.letters, Place: d.place,
		DeadLettered: func(kept string) { d.mu.Lock(); defer d.mu.Unlock(); d.kept = append(d.kept, kept) },
		Quotas:       d.quotas, Timers: d.timers, Unbatched: d, Middleware: d.middleware,
		Trace: d.trace, Receipts: d.receipts, Horizon: d.horizon, IgnoreOthers: d.ignoreOthers, ClockBehind: d.clockBehind, StoreWorks: d.works,
		Scheduled: func(due time.Time) { d.mu.Lock(); defer d.mu.Unlock(); d.wakes = append(d.wakes, due) },
		Handled:   func(r handlers.Result) { d.mu.Lock(); defer d.mu.Unlock(); d.results = append(d.results, r) },
	})
	ctx, stop := context.WithCancel(t.Context())
	returned := make(chan error, 1)
	go func() { returned <- h.Run(ctx) }()
	<-h.Running()
	return h, stop, returned
}

// openInbox returns the inbox of an SQLite file, which is open until the test ends.
func (d *harness) openInbox(t *testing.T) timer.Inbox {
	t.Helper()
	if d.inbox == nil {
		s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "timers.db"), sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		d.inbox = s.Inbox()
	}
	return d.inbox
}

// waitCounts count messages in the inbox, by reason.
type waitCounts struct{ overQuota, failed int64 }

// waits returns how many messages of a tenant wait.
func (d *harness) waits(t *testing.T, tenant timer.TenantID) (n waitCounts) {
	t.Helper()
	counts, err := d.inbox.InboxCounts(t.Context(), tenant)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range counts {
		if c.Reason == timer.WaitQuota {
			n.overQuota = c.Messages
		} else {
			n.failed = c.Messages
		}
	}
	return n
}

// deliver hands over a message and reports whether it was acked.
func (d *harness) deliver(body string, metadata ...string) (acked bool) {
	m := message.NewMessage("original-id", []byte(body))
	for i := 0; i < len(metadata); i += 2 {
		m.Metadata.Set(metadata[i], metadata[i+1])
	}
	d.in <- m
	select {
	case <-m.Acked():
		return true
	case <-m.Nacked():
		return false
	}
}

func TestInvalidBecomesDeadLetter(t *testing.T) {
	t.Parallel()
	late := command
	late.DueAt, late.CorrelationID = noon.Add(25*time.Hour), "req-7"
	tests := []struct {
		name, body      string
		routing         broker.Routing
		came            string // topic
		topic           string
		reason          timer.Reason
		id, correlation string // of the original, as its dead letter has them
	}{
		{"not JSON: no tenant's", "hello", routing, "timer.commands", "svc._.dlq", timer.ReasonNotJSON, "original-id", ""},
		{"empty: no tenant's", "", routing, "timer.commands", "svc._.dlq", timer.ReasonNotJSON, "original-id", ""},
		{"a field is missing: the tenant's", `{"type":"ScheduleTimer","tenantId":"acme"}`, routing, "timer.commands", "svc.acme.dlq", timer.ReasonMissingField, "original-id", ""},
		{"due beyond the horizon", string(envelope.Schedule(late)), routing, "timer.commands", "svc.acme.dlq", timer.ReasonBeyondHorizon, "c-1", "req-7"},
		{"another type", `{"id":"x-1","type":"SheduleTimer","tenantId":"acme","correlationId":"req-8"}`, routing, "timer.commands", "svc.acme.dlq", timer.ReasonUnknownType, "x-1", "req-8"},
		{"an event", string(envelope.Reached(timer.DueTimeReached{Key: command.Key, ID: "e-1", DueAt: noon, ReachedAt: noon})), routing, "timer.commands", "svc.acme.dlq", timer.ReasonUnknownType, "e-1", ""},
		{"a broken body with an id", `{"id":"x-2","correlationId":"req-9","tenantId":"acme","type":`, routing, "timer.commands", "svc.acme.dlq", timer.ReasonNotJSON, "x-2", "req-9"},
		{"ids that are none", `{"id":"x 2","correlationId":"a b","tenantId":"acme"}`, routing, "timer.commands", "svc.acme.dlq", timer.ReasonMissingField, "original-id", ""},
		{"another tenant's topic: the topic's tenant", string(envelope.Schedule(command)), perTenant, "svc.evil.timer", "svc.evil.dlq", timer.ReasonTenantMismatch, "c-1", ""},
		{"a topic that names no tenant", "hello", perTenant, "svc.-.timer", "svc._.dlq", timer.ReasonNotJSON, "original-id", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newHarness()
			d.run(t, tt.routing)
			if !d.deliver(tt.body, broker.MetaTopic, tt.came, broker.MetaPosition, "42", "x-secret", "token") {
				t.Fatal("not acked")
			}
			if len(d.dead) != 1 || len(d.applied) != 0 {
				t.Fatalf("%d dead letters and %d applied, want one and none", len(d.dead), len(d.applied))
			}
			dead := d.dead[0]
			if d.topics[0] != tt.topic || string(dead.Payload) != tt.body {
				t.Errorf("%q went to %s, want %q to %s", dead.Payload, d.topics[0], tt.body, tt.topic)
			}
			got := map[string]string(dead.Metadata)
			if got[envelope.HeaderDeadLetterDetail] == "" {
				t.Error("the detail is empty")
			}
			delete(got, envelope.HeaderDeadLetterDetail)
			want := map[string]string{
				"type": "DeadLetter", "tenantId": strings.Split(tt.topic, ".")[1], "messageId": dead.UUID,
				"deadLetterReason": string(tt.reason), "deadLetterTopic": tt.came, "deadLetterPosition": "42",
				"deadLetterOriginalId": tt.id, "deadLetterCount": "1", "deadLetterReplays": "0",
				"deadLetterFirstAt": "2026-01-01T12:00:00.000Z", "deadLetterLastAt": "2026-01-01T12:00:00.000Z",
			}
			if tt.correlation != "" {
				want["correlationId"] = tt.correlation
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
			if dead.UUID == "original-id" {
				t.Error("the dead letter has the id of its original: the broker would drop it as a duplicate")
			}
		})
	}
}

func TestDeadLetterIsPublishedBeforeTheAck(t *testing.T) {
	t.Parallel()
	d := newHarness()
	d.publish = func(context.Context, string, *message.Message) error { return errors.New("broker is down") }
	d.run(t, routing)
	if acked, waits := d.deliver("hello"), d.waits(t, timer.NoTenant); !acked || waits != (waitCounts{failed: 1}) {
		t.Errorf("acked %t, %+v: want it to wait, since its dead letter was not published", acked, waits)
	}
}

func TestDeadLetterOfTheSameMessageHasTheSameID(t *testing.T) {
	t.Parallel()
	d := newHarness()
	d.run(t, routing)
	for range 2 {
		d.deliver("hello", broker.MetaTopic, "timer.commands", broker.MetaPosition, "42")
	}
	d.deliver("hello", broker.MetaTopic, "timer.commands", broker.MetaPosition, "43")
	if a, b, c := d.dead[0].UUID, d.dead[1].UUID, d.dead[2].UUID; a != b || b == c {
		t.Errorf("ids %s, %s and %s: want the first two equal, the third another", a, b, c)
	}
}

// A replayed message says when it first failed. A producer can say anything, so
// a time that is not past, or not in our own form, is ignored.
func TestDeadLetterOfAReplayCountsOn(t *testing.T) {
	t.Parallel()
	const first, now = "2025-12-24T18:00:00.125Z", "2026-01-01T12:00:00.000Z"
	tests := []struct{ name, replays, carried, count, kept, firstAt string }{
		{"a replay", "2", first, "3", "2", first},
		{"a replay of this very moment", "1", now, "2", "1", now},
		{"a replay that tells nothing", "1", "", "2", "1", now},
		{"no replay", "0", first, "1", "0", now},
		{"no number of replays", "many", first, "1", "0", now},
		{"a time to come", "1", "2026-01-01T12:00:00.001Z", "2", "1", now},
		{"a time of another form", "1", "2025-12-24T19:00:00.125+01:00", "2", "1", now},
		{"a time that is rounded", "1", "2025-12-24T18:00:00.1250Z", "2", "1", now},
		{"no time", "1", "never\r\nx: y", "2", "1", now},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newHarness()
			d.run(t, routing)
			if !d.deliver("hello", envelope.HeaderDeadLetterReplays, tt.replays, envelope.HeaderDeadLetterFirstAt, tt.carried) {
				t.Fatal("not acked")
			}
			got := d.dead[0].Metadata
			want := []string{tt.count, tt.kept, tt.firstAt, now}
			if diff := cmp.Diff(want, []string{
				got.Get(envelope.HeaderDeadLetterCount), got.Get(envelope.HeaderDeadLetterReplays),
				got.Get(envelope.HeaderDeadLetterFirstAt), got.Get(envelope.HeaderDeadLetterLastAt),
			}); diff != "" {
				t.Errorf("count, replays, first and last time (-want +got):\n%s", diff)
			}
		})
	}
}

// A dead letter has more headers than its original, so the broker may refuse it as too
// large although it took the original.
func TestDeadLetterTooLargeIsCut(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int]int{1 << 20: envelope.MaxBytes, 64_000: 32 << 10, 10: 8, 0: 0} {
		d := newHarness()
		d.publish = func(_ context.Context, _ string, m *message.Message) error {
			if len(m.Payload) > limit {
				return broker.ErrRefused
			}
			return nil
		}
		d.run(t, routing)
		if !d.deliver(strings.Repeat("x", max(limit+1, envelope.MaxBytes))) {
			t.Errorf("limit %d: not acked", limit)
			continue
		}
		if got := d.dead[0]; len(got.Payload) != want || got.Metadata.Get("deadLetterTruncated") != "true" {
			t.Errorf("limit %d: %d bytes, truncated = %q, want %d bytes", limit, len(got.Payload), got.Metadata.Get("deadLetterTruncated"), want)
		}
	}
}

func TestRowThatTheDatabaseRefusesBecomesDeadLetter(t *testing.T) {
	inBubble(t, func(t *testing.T, d *harness) {
		d.apply = func(any) error { return timer.Invalid(timer.ReasonRefused, "no such service call") }
		h := d.run(t, routing)
		if !d.deliver(string(envelope.Schedule(command))) {
			t.Fatal("not acked")
		}
		if h.Paused() {
			t.Error("the intake is paused, though the store works")
		}
		if got := d.dead[0].Metadata.Get("deadLetterReason"); got != "refused" {
			t.Errorf("reason %q, want refused", got)
		}
	})
}
