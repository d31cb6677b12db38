package handlers_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/quota"
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
		Version: timer.Version{TimestampMS: 1, CommandID: "c-1"},
		DueAt:   noon.Add(time.Hour),
	}
)

// A desk is a subscriber, a publisher and a store in one: it delivers messages
// by hand, keeps what is published, and applies commands as the test says.
type desk struct {
	in      chan *message.Message
	apply   func(command any) error
	quotas  *quota.Keeper
	timers  timer.Reader
	log     slog.Handler
	publish func(topic string, msg *message.Message) error

	mu      sync.Mutex
	applied []any
	commits []int // commands of each
	letters []*message.Message
	topics  []string
	results []handlers.Result
	wakes   []time.Time
}

func newDesk() *desk { return &desk{in: make(chan *message.Message), log: slog.DiscardHandler} }

func (d *desk) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
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

func (d *desk) Close() error { return nil }

func (d *desk) Publish(topic string, messages ...*message.Message) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range messages {
		if d.publish != nil {
			if err := d.publish(topic, m); err != nil {
				return err
			}
		}
		d.letters, d.topics = append(d.letters, m), append(d.topics, topic)
	}
	return nil
}

func (d *desk) Schedule(_ context.Context, _ time.Time, commands ...timer.ScheduleTimer) ([]timer.Outcome, error) {
	return take(d, timer.DidSchedule, commands)
}

func (d *desk) Cancel(_ context.Context, _ time.Time, commands ...timer.CancelTimer) ([]timer.Outcome, error) {
	return take(d, timer.DidCancel, commands)
}

// take applies all commands or none.
func take[C any](d *desk, outcome timer.Outcome, commands []C) (outcomes []timer.Outcome, err error) {
	var applied []any
	for _, c := range commands {
		if d.apply != nil {
			if err := d.apply(c); err != nil {
				return nil, err
			}
		}
		applied, outcomes = append(applied, c), append(outcomes, outcome)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.applied = append(d.applied, applied...)
	d.commits = append(d.commits, len(commands))
	return outcomes, nil
}

// run starts handlers on the desk, and stops them when the test ends.
func (d *desk) run(t *testing.T, r broker.Routing) *handlers.Handlers {
	h := handlers.New(d, r, d, d, timer.ClockFunc(func() time.Time { return noon }), slog.New(d.log), handlers.Options{
		Quotas: d.quotas, Timers: d.timers,
		Horizon:   24 * time.Hour,
		Scheduled: func(due time.Time) { d.mu.Lock(); defer d.mu.Unlock(); d.wakes = append(d.wakes, due) },
		Handled:   func(r handlers.Result) { d.mu.Lock(); defer d.mu.Unlock(); d.results = append(d.results, r) },
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	<-h.Running()
	return h
}

// deliver hands over a message and reports whether it was acked.
func (d *desk) deliver(body string, metadata ...string) (acked bool) {
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

func TestAppliesCommandsAndAcks(t *testing.T) {
	t.Parallel()
	d := newDesk()
	d.run(t, routing)
	cancel := timer.CancelTimer{Key: command.Key, Version: timer.Version{TimestampMS: 2, CommandID: "c-2"}}
	if !d.deliver(string(envelope.Schedule(command))) || !d.deliver(string(envelope.Cancel(cancel))) {
		t.Fatal("not acked")
	}
	if diff := cmp.Diff([]any{command, cancel}, d.applied); diff != "" {
		t.Errorf("applied (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]time.Time{command.DueAt}, d.wakes); diff != "" {
		t.Errorf("told the poller (-want +got):\n%s", diff)
	}
	want := []handlers.Result{{Type: "ScheduleTimer", Outcome: "scheduled"}, {Type: "CancelTimer", Outcome: "canceled"}}
	if diff := cmp.Diff(want, d.results); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
	if len(d.letters) != 0 {
		t.Errorf("published %v", d.letters)
	}
}

func TestInvalidBecomesDeadLetter(t *testing.T) {
	t.Parallel()
	late := command
	late.DueAt = noon.Add(25 * time.Hour)
	tests := []struct {
		name, body string
		routing    broker.Routing
		came       string // topic
		topic      string
		reason     timer.Reason
	}{
		{"not JSON: nobody's", "hello", routing, "timer.commands", "svc._.dlq", timer.ReasonNotJSON},
		{"empty: nobody's", "", routing, "timer.commands", "svc._.dlq", timer.ReasonNotJSON},
		{"a field is missing: the tenant's", `{"type":"ScheduleTimer","tenantId":"acme"}`, routing, "timer.commands", "svc.acme.dlq", timer.ReasonMissingField},
		{"due beyond the horizon", string(envelope.Schedule(late)), routing, "timer.commands", "svc.acme.dlq", timer.ReasonBeyondHorizon},
		{"another tenant's topic: the topic's tenant", string(envelope.Schedule(command)), perTenant, "svc.evil.timer", "svc.evil.dlq", timer.ReasonTenantMismatch},
		{"a topic that names no tenant", "hello", perTenant, "svc.-.timer", "svc._.dlq", timer.ReasonNotJSON},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk()
			d.run(t, tt.routing)
			if !d.deliver(tt.body, envelope.MetaTopic, tt.came, envelope.MetaPosition, "42", "x-secret", "token") {
				t.Fatal("not acked")
			}
			if len(d.letters) != 1 || len(d.applied) != 0 {
				t.Fatalf("%d dead letters and %d applied, want one and none", len(d.letters), len(d.applied))
			}
			letter := d.letters[0]
			if d.topics[0] != tt.topic || string(letter.Payload) != tt.body {
				t.Errorf("%q went to %s, want %q to %s", letter.Payload, d.topics[0], tt.body, tt.topic)
			}
			got := map[string]string(letter.Metadata)
			if got[envelope.HeaderDeadLetterDetail] == "" {
				t.Error("the detail is empty")
			}
			delete(got, envelope.HeaderDeadLetterDetail)
			want := map[string]string{
				"type": "DeadLetter", "tenantId": strings.Split(tt.topic, ".")[1], "messageId": letter.UUID,
				"deadLetterReason": string(tt.reason), "deadLetterTopic": tt.came, "deadLetterPosition": "42",
				"deadLetterOriginalId": "original-id", "deadLetterCount": "1", "deadLetterReplays": "0",
				"deadLetterFirstAt": "2026-01-01T12:00:00.000Z", "deadLetterLastAt": "2026-01-01T12:00:00.000Z",
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
			if letter.UUID == "original-id" {
				t.Error("the dead letter has the id of its original: the broker would drop it as a duplicate")
			}
		})
	}
}

func TestDeadLetterIsPublishedBeforeTheAck(t *testing.T) {
	t.Parallel()
	d := newDesk()
	d.publish = func(string, *message.Message) error { return errors.New("broker is down") }
	d.run(t, routing)
	if d.deliver("hello") {
		t.Error("acked though its dead letter was not published")
	}
}

// What is invalid has no bearing on the messages of its key behind it: they need
// not wait until its dead letter is published. Others must wait.
func TestInvalidMessageLeavesItsPlace(t *testing.T) {
	t.Parallel()
	d := newDesk()
	publishing, publish := make(chan struct{}), make(chan struct{})
	d.publish = func(string, *message.Message) error {
		close(publishing)
		<-publish
		return nil
	}
	d.run(t, routing)
	left := make(chan struct{}, 1)
	send := func(body string) *message.Message {
		m := message.NewMessage("id", []byte(body))
		m.SetContext(envelope.WithPlace(t.Context(), func() { left <- struct{}{} }))
		d.in <- m
		return m
	}
	invalid := send("hello")
	<-publishing
	select {
	case <-left:
	default:
		t.Error("stays in its place while its dead letter is published")
	}
	close(publish)
	<-invalid.Acked()
	<-send(string(envelope.Schedule(command))).Acked()
	if len(left) > 0 {
		t.Error("a valid command leaves its place")
	}
}

func TestDeadLetterOfTheSameMessageHasTheSameID(t *testing.T) {
	t.Parallel()
	d := newDesk()
	d.run(t, routing)
	for range 2 {
		d.deliver("hello", envelope.MetaTopic, "timer.commands", envelope.MetaPosition, "42")
	}
	d.deliver("hello", envelope.MetaTopic, "timer.commands", envelope.MetaPosition, "43")
	if a, b, c := d.letters[0].UUID, d.letters[1].UUID, d.letters[2].UUID; a != b || b == c {
		t.Errorf("ids %s, %s and %s: want the first two equal, the third another", a, b, c)
	}
}

// A dead letter has more headers than its original, so what came in may be too
// large to go out, however small the broker's limit is.
// A replayed message tells when it first failed. Whoever publishes can tell
// anything, so what is not past, or not in our own form, is not believed.
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
			d := newDesk()
			d.run(t, routing)
			if !d.deliver("hello", envelope.HeaderDeadLetterReplays, tt.replays, envelope.HeaderDeadLetterFirstAt, tt.carried) {
				t.Fatal("not acked")
			}
			got := d.letters[0].Metadata
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

func TestDeadLetterTooLargeIsCut(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int]int{1 << 20: envelope.MaxBytes, 64_000: 32 << 10, 10: 8, 0: 0} {
		d := newDesk()
		d.publish = func(_ string, m *message.Message) error {
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
		if got := d.letters[0]; len(got.Payload) != want || got.Metadata.Get("deadLetterTruncated") != "true" {
			t.Errorf("limit %d: %d bytes, truncated = %q, want %d bytes", limit, len(got.Payload), got.Metadata.Get("deadLetterTruncated"), want)
		}
	}
}

func TestOtherTypesAreAckedAndCounted(t *testing.T) {
	t.Parallel()
	d := newDesk()
	d.run(t, routing)
	event := envelope.Reached(timer.DueTimeReached{Key: command.Key, CommandID: "c", DueAt: noon, ReachedAt: noon})
	if !d.deliver(`{"type":"SomethingElse"}`) || !d.deliver(string(event)) {
		t.Error("not acked")
	}
	want := []handlers.Result{{Type: "other", Outcome: "ignored"}, {Type: "other", Outcome: "ignored"}}
	if diff := cmp.Diff(want, d.results); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
}

func TestOutageIsNeverPoison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		tries := 0
		d.apply = func(any) error { tries++; return errors.New("database is locked") }
		d.run(t, routing)
		if d.deliver(string(envelope.Schedule(command))) {
			t.Error("acked though it was not stored")
		}
		if tries != 1+3 {
			t.Errorf("tried %d times, want once with others and three times alone", tries)
		}
		if len(d.letters) != 0 {
			t.Errorf("an outage made a dead letter: %v", d.letters[0].Metadata)
		}
	})
}

func TestPanicIsAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		d.apply = func(any) error { panic("bug") }
		d.run(t, routing)
		if d.deliver(string(envelope.Schedule(command))) || len(d.letters) != 0 {
			t.Error("a panic was acked or made a dead letter")
		}
	})
}

func TestRowThatTheDatabaseRefusesBecomesDeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		d.apply = func(any) error { return timer.Invalid(timer.ReasonRefused, "no such service call") }
		d.run(t, routing)
		if !d.deliver(string(envelope.Schedule(command))) {
			t.Fatal("not acked")
		}
		if got := d.letters[0].Metadata.Get("deadLetterReason"); got != "refused" {
			t.Errorf("reason %q, want refused", got)
		}
	})
}

// While the store is down messages wait instead of being nacked again and
// again, invalid ones still reach the dead letters, and all go on when it is back.
func TestIntakeStopsWhileTheStoreIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		began := time.Now()
		d.apply = func(any) error {
			if time.Since(began) < 10*time.Minute {
				return errors.New("disk full")
			}
			return nil
		}
		d.run(t, routing)
		var acked, nacked int
		var mu sync.Mutex
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				body := string(envelope.Schedule(command))
				for !d.deliver(body) {
					mu.Lock()
					nacked++
					mu.Unlock()
					time.Sleep(25 * time.Second) // the broker's delay
				}
				mu.Lock()
				acked++
				mu.Unlock()
			})
		}
		time.Sleep(5 * time.Minute)
		if !d.deliver("hello") {
			t.Error("an invalid message is not acked while the store is down")
		}
		all.Wait()
		if acked != 100 || len(d.letters) != 1 {
			t.Errorf("%d of 100 acked, %d dead letters, want 1", acked, len(d.letters))
		}
		// One probe every five seconds and the first hundred: far from five
		// deliveries per message and minute, which would be 5,000.
		if nacked > 300 {
			t.Errorf("%d nacks in a ten-minute outage", nacked)
		}
	})
}

func TestFatalEndsTheIntake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		d.apply = func(any) error { return timer.ErrFatal }
		h := handlers.New(d, routing, d, d, timer.ClockFunc(func() time.Time { return noon }), slog.New(slog.DiscardHandler), handlers.Options{})
		ended := make(chan error, 1)
		go func() { ended <- h.Run(t.Context()) }()
		<-h.Running()
		if d.deliver(string(envelope.Schedule(command))) {
			t.Error("acked")
		}
		if err := <-ended; !errors.Is(err, timer.ErrFatal) {
			t.Errorf("Run: %v, want ErrFatal", err)
		}
	})
}
