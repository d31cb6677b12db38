package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/internal/logbuf"
	"github.com/event-service-agent/timer-service/timer"
)

func TestOnlyCorrelationAndTraceCrossOver(t *testing.T) {
	t.Parallel()
	d := newHarness()
	d.run(t, routing)
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	d.deliver(string(envelope.Schedule(command)), "correlationId", "from-header", "traceparent", parent, "tracestate", "a=b",
		"tenantId", "evil", "Nats-Rollup", "all")
	taken := timer.CancelTimer{Key: command.Key, Version: timer.Version{TimestampMS: noon.UnixMilli(), CommandID: "c-2"}}
	d.deliver(string(envelope.Cancel(taken)), "correlationId", "from-header")
	inBody := command
	inBody.CorrelationID = "from-body"
	d.deliver(string(envelope.Schedule(inBody)), "correlationId", "from-header")

	first := command
	first.CorrelationID, first.Trace = "from-header", timer.Trace{Parent: parent, State: "a=b"}
	taken.CorrelationID = "from-header"
	if diff := cmp.Diff([]any{first, taken, inBody}, d.applied); diff != "" {
		t.Errorf("applied (-want +got):\n%s", diff)
	}
}

// A CloudEvent may carry all of it in its body.
func TestBodyWinsOverHeaders(t *testing.T) {
	t.Parallel()
	const (
		inBody   = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		inHeader = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	)
	d := newHarness()
	d.run(t, routing)
	event := func(more string) string {
		return `{"specversion":"1.0","id":"c-1","source":"/a","type":"ScheduleTimer","time":"2026-01-01T00:00:00Z"` + more +
			`,"data":{"tenantId":"acme","serviceCallId":"order-1","dueAt":"2026-01-01T13:00:00Z"}}`
	}
	for _, body := range []string{
		`,"correlationid":"from-body","traceparent":"` + inBody + `","tracestate":"b=1"`,
		`,"correlationid":"from-body","traceparent":"` + inBody + `"`, // the state of another trace says nothing of this one
		`,"traceparent":"malformed","tracestate":"b=1"`,
		``,
	} {
		d.deliver(event(body), "correlationId", "from-header", "traceparent", inHeader, "tracestate", "h=1", "content-type", "text/plain", "ce_type", "CancelTimer")
	}
	want := func(correlation, parent, state string) timer.ScheduleTimer {
		c := command
		c.TimestampMS = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
		c.CorrelationID, c.Trace = correlation, timer.Trace{Parent: parent, State: state}
		return c
	}
	if diff := cmp.Diff([]any{
		want("from-body", inBody, "b=1"), want("from-body", inBody, ""),
		want("from-header", inHeader, "h=1"), want("from-header", inHeader, "h=1"),
	}, d.applied); diff != "" {
		t.Errorf("applied (-want +got):\n%s", diff)
	}
}

func TestTimestampFarFromTheClockIsADeadLetter(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		ms   int64
		want string // part of the detail; empty: accepted
	}{
		{"now", noon.UnixMilli(), ""},
		{"more than a day ahead", noon.Add(24*time.Hour).UnixMilli() + 1, "24h0m0s ahead of the clock of the service"},
		{"zero", 0, "before the year 2000"},
	} {
		d := newHarness()
		d.run(t, routing)
		schedule := command
		schedule.TimestampMS = test.ms
		cancel := timer.CancelTimer{Key: command.Key, Version: schedule.Version}
		many := timer.ScheduleTimers{TenantID: command.TenantID, Version: schedule.Version, Commands: []timer.ScheduleTimer{schedule}}
		bodies := [][]byte{envelope.Schedule(schedule), envelope.Cancel(cancel), envelope.ScheduleMany(many)}
		for _, body := range bodies {
			if !d.deliver(string(body)) {
				t.Errorf("%s: %s was not acked", test.name, body)
			}
		}
		want := 0
		if test.want != "" {
			want = len(bodies)
		}
		if len(d.dead) != want || len(d.applied) != len(bodies)-want {
			t.Errorf("%s: %d dead letters, %d applied", test.name, len(d.dead), len(d.applied))
		}
		for _, dead := range d.dead {
			reason, detail := dead.Metadata.Get(envelope.HeaderDeadLetterReason), dead.Metadata.Get(envelope.HeaderDeadLetterDetail)
			if reason != "bad_time" || !strings.Contains(detail, test.want) {
				t.Errorf("%s: %s, %q, want %q", test.name, reason, detail, test.want)
			}
		}
	}
}

// TestCommandIsNotRefusedByAClockThatIsBehind sends commands that are too far in the future of
// a clock, which is wrong at first.
func TestCommandIsNotRefusedByAClockThatIsBehind(t *testing.T) {
	t.Parallel()
	early, late := command, command
	early.TimestampMS = noon.Add(25 * time.Hour).UnixMilli()
	late.DueAt = noon.AddDate(11, 0, 0)
	d, behind := newHarness(), true
	d.clockBehind = func(context.Context) bool { return behind }
	d.run(t, routing)
	for _, c := range []timer.ScheduleTimer{early, late} {
		body := string(envelope.Schedule(c))
		behind = true
		if !d.deliver(body) || len(d.dead) > 0 || d.waits(t, "acme").failed == 0 {
			t.Errorf("%s does not wait, %d dead letters", body, len(d.dead))
		}
		behind = false
		if !d.deliver(body) || len(d.dead) != 1 {
			t.Errorf("%s is not a dead letter", body)
		}
		d.dead = nil
	}
}

// TestClockThatIsAheadIsLogged by tenant, as a digest.
func TestClockThatIsAheadIsLogged(t *testing.T) {
	inBubble(t, func(t *testing.T, d *harness) {
		var log logbuf.Buffer
		d.log = slog.NewTextHandler(&log, nil)
		d.run(t, routing)
		for _, send := range []struct {
			tenant timer.TenantID
			ahead  time.Duration
			want   string // nothing, if it is empty
		}{{"acme", time.Minute, ""}, {"acme", time.Hour, "tenant_id=acme count=1 ahead=1h0m0s first_message_id=c-1"}, {"acme", time.Hour, ""}, {"beta", 2 * time.Hour, "tenant_id=beta"}} {
			c := command
			c.TenantID, c.TimestampMS = send.tenant, noon.Add(send.ahead).UnixMilli()
			d.deliver(string(envelope.Schedule(c)))
			if text := log.Take(); strings.Contains(text, "level=WARN") != (send.want != "") || !strings.Contains(text, send.want) {
				t.Errorf("%+v: %s", send, text)
			}
		}
		if len(d.applied) != 4 || len(d.dead) != 0 {
			t.Errorf("%d applied, %d dead letters", len(d.applied), len(d.dead))
		}
	})
}

// A dead letter has no id that was not sent, and the correlation id of a header if the
// body has none.
func TestDeadLetterOfAMessageWithoutAnID(t *testing.T) {
	t.Parallel()
	d := newHarness()
	d.run(t, routing)
	d.deliver("hello", broker.MetaNoID, "true", "correlationId", "req-7")
	d.deliver(`{"id":"x-1"}`, broker.MetaNoID, "true", "correlationId", "req 8")
	for i, want := range [][2]string{{"", "req-7"}, {"x-1", ""}} {
		m := d.dead[i].Metadata
		if got := [2]string{m.Get(envelope.HeaderDeadLetterOriginalID), m.Get(envelope.HeaderCorrelationID)}; got != want {
			t.Errorf("id and correlation id %q, want %q", got, want)
		}
	}
}

func TestOtherTypesAreAckedCountedAndLoggedOnceIfTheyAreIgnored(t *testing.T) {
	t.Parallel()
	d := newHarness()
	var log logbuf.Buffer
	d.log, d.ignoreOthers = slog.NewTextHandler(&log, nil), true
	d.run(t, routing)
	defer func() {
		for range 3 {
			d.deliver(`{"type":"SomethingElse"}`)
		}
		if text := log.String(); strings.Count(text, "SomethingElse") != 1 || strings.Count(text, "\n") != 2 {
			t.Errorf("want a line for each type: %s", text)
		}
	}()
	event := envelope.Reached(timer.DueTimeReached{Key: command.Key, CommandID: "c", DueAt: noon, ReachedAt: noon})
	if !d.deliver(`{"type":"SomethingElse"}`) || !d.deliver(string(event)) {
		t.Error("not acked")
	}
	want := []handlers.Result{{Type: "other", Outcome: "ignored"}, {Type: "other", Outcome: "ignored"}}
	if diff := cmp.Diff(want, d.results); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
}

// TestARefusedCommandHasADeadLetterAndAReceiptBeforeItsAck has the first attempt to write one fail.
func TestARefusedCommandHasADeadLetterAndAReceiptBeforeItsAck(t *testing.T) {
	t.Parallel()
	d := newHarness()
	var mu sync.Mutex
	var got []timer.Receipt
	full := errors.New("disk full")
	d.receipts = func(_ context.Context, now time.Time, receipts ...timer.Receipt) error {
		mu.Lock()
		defer mu.Unlock()
		if len(got) == 0 && full != nil {
			full = nil
			return errors.New("disk full")
		}
		got = append(got, receipts...)
		return nil
	}
	d.run(t, routing)
	many := timer.ScheduleTimers{TenantID: "acme", Version: command.Version, Commands: []timer.ScheduleTimer{command, command}}
	many.Commands[1].ServiceCallID, many.Commands[1].DueAt = "order-2", noon.Add(48*time.Hour)
	refused := `{"id":"c-5","type":"ScheduleTimer","tenantId":"acme","aggregateId":"order-1","correlationId":"req-5"}`
	from := []string{broker.MetaTopic, "timer.commands", envelope.HeaderTraceParent, producers}
	if !d.deliver(refused, from...) || len(d.dead) != 1 || d.waits(t, "acme").failed != 1 {
		t.Error("done without a receipt, or a receipt written before the dead letter")
	}
	for _, body := range []string{refused, string(envelope.ScheduleMany(many)), `{"tenantId":"acme"}`, `{"tenantId":"?"}`, `not JSON`} {
		if !d.deliver(body, from...) {
			t.Errorf("%s was not acked", body)
		}
	}
	if !d.deliver(string(envelope.Schedule(command))) || !d.applied[0].(timer.ScheduleTimer).Receipt {
		t.Error("the store was not asked for the receipt of a valid command")
	}
	mu.Lock()
	defer mu.Unlock()
	for i := range got {
		if got[i].Detail == "" || got[i].Trace.Parent != producers || !got[i].At.Equal(noon) {
			t.Errorf("receipt %+v", got[i])
		}
		got[i].Detail, got[i].Trace, got[i].At = "", timer.Trace{}, time.Time{}
	}
	want := []timer.Receipt{
		{Type: timer.TimerRejected, Key: command.Key, CommandID: "c-5", CorrelationID: "req-5", Reason: timer.ReasonMissingField},
		{Type: timer.TimerRejected, Key: timer.Key{TenantID: "acme"}, CommandID: "c-1", Reason: timer.ReasonBeyondHorizon},
		{Type: timer.TimerRejected, Key: timer.Key{TenantID: "acme"}, Reason: timer.ReasonMissingField},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("receipts (-want +got):\n%s", diff)
	}
}

const (
	producers = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	ours      = "00-0af7651916cd43dd8448eb211c80319c-00000000000000ff-01"
)

// TestCommandsCarryTheSpanOfTheirHandling has a trace that notes its arguments.
func TestCommandsCarryTheSpanOfTheirHandling(t *testing.T) {
	t.Parallel()
	type key struct{}
	d := newHarness()
	var mu sync.Mutex
	var got []string
	d.trace = func(ctx context.Context, r handlers.Received) (context.Context, timer.Trace, func(handlers.Handled)) {
		mu.Lock()
		defer mu.Unlock()
		line := fmt.Sprintf("%s %s %s %s of %d, %t", r.Topic, r.Type, r.Key, r.ID, r.Commands, r.Trace.Parent == producers)
		return context.WithValue(ctx, key{}, line), timer.Trace{Parent: ours}, func(h handlers.Handled) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, fmt.Sprintf("%s: %s %s %v", line, h.Outcome, h.Reason, h.Err))
		}
	}
	d.apply = func(c any) error {
		if cancel, ok := c.(timer.CancelTimer); ok && cancel.CommandID == "c-9" {
			return errors.New("disk full")
		}
		return nil
	}
	d.run(t, routing)
	from := []string{broker.MetaTopic, "timer.commands", envelope.HeaderTraceParent, producers}
	d.deliver(string(envelope.Schedule(command)), from...)
	many := timer.ScheduleTimers{TenantID: "acme", Version: command.Version, Commands: []timer.ScheduleTimer{command, command}}
	many.Commands[1].ServiceCallID = "order-2"
	d.deliver(string(envelope.ScheduleMany(many)), from...)
	d.deliver(string(envelope.Cancel(timer.CancelTimer{Key: command.Key, Version: timer.Version{TimestampMS: noon.UnixMilli(), CommandID: "c-2"}})), from...)
	d.deliver(`{}`, from...)
	d.deliver(string(envelope.Cancel(timer.CancelTimer{Key: command.Key, Version: timer.Version{TimestampMS: noon.UnixMilli(), CommandID: "c-9"}})))

	mu.Lock()
	defer mu.Unlock()
	want := []string{
		"timer.commands ScheduleTimer acme.order-1 c-1 of 1, true: scheduled  <nil>",
		"timer.commands ScheduleTimers acme. c-1 of 2, true: scheduled  <nil>",
		"timer.commands CancelTimer acme.order-1 c-2 of 1, true: canceled  <nil>",
		"timer.commands  .  of 0, true: invalid missing_field <nil>",
		" CancelTimer acme.order-1 c-9 of 1, false: failed  cancel acme.order-1: disk full",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
	if len(d.applied) != 4 {
		t.Fatalf("applied %d commands, want 4", len(d.applied))
	}
	for _, c := range d.applied {
		trace := timer.Trace{}
		switch c := c.(type) {
		case timer.ScheduleTimer:
			trace = c.Trace
		case timer.CancelTimer:
			trace = c.Trace
		}
		if trace.Parent != ours {
			t.Errorf("%+v carries %q, want that of its span", c, trace.Parent)
		}
	}
}
