package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/trace"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A tray is a publisher that keeps its messages.
type tray struct {
	mu       sync.Mutex
	topics   []string
	messages []*message.Message
	failAt   int // the call that fails, from 1
}

var errAway = errors.New("the broker is away")

func (p *tray) Publish(topic string, messages ...*message.Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failAt > 0 && len(p.topics)+1 >= p.failAt {
		return errAway
	}
	p.topics = append(p.topics, topic)
	p.messages = append(p.messages, messages...)
	return nil
}

func (p *tray) Close() error { return nil }

// payloads decodes the published messages.
func (p *tray) payloads(t *testing.T) []any {
	t.Helper()
	all := make([]any, len(p.messages))
	for i, m := range p.messages {
		decoded, err := envelope.Decode(m.Payload)
		must(t, err)
		all[i] = decoded.Payload
	}
	return all
}

func at(times ...time.Time) timer.Clock {
	return timer.ClockFunc(func() time.Time {
		now := times[0]
		if len(times) > 1 {
			times = times[1:]
		}
		return now
	})
}

func newClient(times ...time.Time) (*client.Client, *tray) {
	if len(times) == 0 {
		times = []time.Time{noon}
	}
	p := new(tray)
	return client.New(p, broker.PlainRouting(), client.Options{Clock: at(times...)}), p
}

func TestScheduleSendsTheContract(t *testing.T) {
	t.Parallel()
	p := new(tray)
	c := client.New(p, broker.Routing{Commands: "svc.{tenant}.timer"}, client.Options{Clock: at(noon)})
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
	ctx := trace.ContextWithSpanContext(t.Context(), span)
	version, err := c.Schedule(ctx, client.Timer{
		TenantID: "acme", ServiceCallID: "order-1", After: 3 * time.Second, CorrelationID: "req-7", Data: json.RawMessage(`{"n": 1}`),
	})
	must(t, err)
	if version.TimestampMS != noon.UnixMilli() {
		t.Errorf("timestampMs is %d, want that of the clock", version.TimestampMS)
	}
	parent := "00-01000000000000000000000000000000-0200000000000000-01"
	want := timer.ScheduleTimer{
		Key: timer.Key{TenantID: "acme", ServiceCallID: "order-1"}, Version: version, DueAt: noon.Add(3 * time.Second),
		CorrelationID: "req-7", Data: `{"n": 1}`,
	}
	if diff := cmp.Diff([]any{want}, p.payloads(t)); diff != "" {
		t.Error(diff)
	}
	m := p.messages[0]
	headers := message.Metadata{
		"type": "ScheduleTimer", "tenantId": "acme", "serviceCallId": "order-1", "messageId": version.CommandID,
		"correlationId": "req-7", "traceparent": parent,
	}
	if diff := cmp.Diff(headers, m.Metadata); diff != "" {
		t.Error(diff)
	}
	if m.UUID != version.CommandID || p.topics[0] != "svc.acme.timer" || m.Context() != ctx {
		t.Errorf("message %s on %s, want the id of the command on the topic of its tenant, with the context", m.UUID, p.topics[0])
	}
}

func TestTheTraceIsWhatTheProgramSays(t *testing.T) {
	t.Parallel()
	p := new(tray)
	parent := "00-01000000000000000000000000000000-0200000000000000-01"
	c := client.New(p, broker.PlainRouting(), client.Options{Trace: func(context.Context) timer.Trace { return timer.Trace{Parent: parent, State: "a=b"} }})
	if _, err := c.Cancel(t.Context(), timer.Key{TenantID: "acme", ServiceCallID: "order-1"}); err != nil {
		t.Fatal(err)
	}
	if m := p.messages[0].Metadata; m["traceparent"] != parent || m["tracestate"] != "a=b" {
		t.Errorf("headers are %v", m)
	}
}

func TestVersionsMayBeGiven(t *testing.T) {
	t.Parallel()
	c, p := newClient()
	given := timer.Version{TimestampMS: noon.UnixMilli() - 5, CommandID: "c-1"}
	got, err := c.Schedule(t.Context(), client.Timer{TenantID: "acme", ServiceCallID: "order-1", DueAt: noon, Version: given})
	if err != nil || got != given {
		t.Errorf("got %v, %v", got, err)
	}
	got, err = c.CancelTimer(t.Context(), timer.CancelTimer{
		Key: timer.Key{TenantID: "acme", ServiceCallID: "order-1"}, Version: timer.Version{CommandID: "c-2"}, CorrelationID: "req-7",
	})
	if want := (timer.Version{TimestampMS: noon.UnixMilli(), CommandID: "c-2"}); err != nil || got != want {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	if p.messages[0].UUID != "c-1" || p.messages[1].UUID != "c-2" {
		t.Error("the ids of the messages are not those given")
	}
}

// A command for many timers is newer than the timers that the same client has scheduled before.
func TestManyTimersHaveOneCommand(t *testing.T) {
	t.Parallel()
	var c *client.Client
	of := timer.Selection{Calls: []timer.ServiceCallID{"order-1.pay"}}
	for _, tt := range []struct {
		send func(timer.Selection) (timer.Version, error)
		want func(timer.Version) any
	}{
		{
			func(of timer.Selection) (timer.Version, error) { return c.CancelMany(t.Context(), "acme", of) },
			func(v timer.Version) any { return timer.CancelTimers{TenantID: "acme", Version: v, Of: of} },
		},
		{
			func(of timer.Selection) (timer.Version, error) {
				return c.RescheduleMany(t.Context(), "acme", of, noon)
			},
			func(v timer.Version) any {
				return timer.RescheduleTimers{TenantID: "acme", Version: v, Of: of, DueAt: noon}
			},
		},
	} {
		var p *tray
		c, p = newClient()
		scheduled, err := c.Schedule(t.Context(), client.Timer{TenantID: "acme", ServiceCallID: "order-1.pay", DueAt: noon})
		must(t, err)
		version, err := tt.send(of)
		if diff := cmp.Diff(tt.want(version), p.payloads(t)[1]); diff != "" || err != nil || version.Compare(scheduled) <= 0 {
			t.Errorf("version %v after %v, error %v: %s", version, scheduled, err, diff)
		}
		if v, err := tt.send(timer.Selection{}); !errors.Is(err, timer.ErrInvalid) || v != (timer.Version{}) || len(p.messages) != 2 {
			t.Errorf("without a selection: version %v, %v, %d messages", v, err, len(p.messages))
		}
	}
	if v, err := c.RescheduleMany(t.Context(), "acme", of, time.Time{}); !errors.Is(err, timer.ErrInvalid) || v != (timer.Version{}) {
		t.Errorf("without a due time: version %v, %v", v, err)
	}
}

// Two commands of one millisecond are ordered by their ids.
func TestVersionsOfAProcessGrow(t *testing.T) {
	t.Parallel()
	const each = 5000
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			var last timer.Version
			for range each {
				command, err := client.Timer{TenantID: "acme", ServiceCallID: "order-1", DueAt: noon}.Command(noon)
				if err != nil || command.Version.Compare(last) <= 0 {
					t.Errorf("%v after %v, error %v", command.Version, last, err)
					return
				}
				last = command.Version
			}
		})
	}
	group.Wait()
}

func TestVersionsGrowWhenTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	key := timer.Key{TenantID: "acme", ServiceCallID: "order-1"}
	c, p := newClient(noon, noon.Add(-time.Second), noon.Add(-time.Hour))
	booked, err := c.Schedule(t.Context(), client.Timer{TenantID: "acme", ServiceCallID: "order-1", After: time.Minute})
	canceled, err2 := c.Cancel(t.Context(), key)
	if err != nil || err2 != nil || canceled.Compare(booked) <= 0 {
		t.Errorf("%v after %v: %v, %v", canceled, booked, err, err2)
	}
	back, err := c.Cancel(t.Context(), key) // a clock that was an hour ahead is no reason to go on so
	if err != nil || back.TimestampMS != noon.Add(-time.Hour).UnixMilli() {
		t.Errorf("got %v, %v", back, err)
	}
	if due := p.payloads(t)[0].(timer.ScheduleTimer).DueAt; !due.Equal(noon.Add(time.Minute)) {
		t.Errorf("due at %v", due)
	}
}

func TestSaysWhatIsWrongBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	good := client.Timer{TenantID: "acme", ServiceCallID: "order-1", DueAt: noon}
	tests := []struct {
		name   string
		change func(*client.Timer)
		want   string
	}{
		{"no tenant", func(x *client.Timer) { x.TenantID = "" }, "tenantId is empty"},
		{"no due time", func(x *client.Timer) { x.DueAt = time.Time{} }, "dueAt is missing"},
		{"two due times", func(x *client.Timer) { x.After = time.Hour }, "DueAt and After exclude each other"},
		{"data that are no JSON", func(x *client.Timer) { x.Data = json.RawMessage(`{"a":`) }, "data is not one JSON value"},
		{"a time in microseconds", func(x *client.Timer) { x.Version.TimestampMS = noon.UnixMicro() }, "microseconds"},
		{"an id with a line break", func(x *client.Timer) { x.Version.CommandID = "a\n" }, "id "},
	}
	for _, tt := range tests {
		c, p := newClient()
		bad := good
		tt.change(&bad)
		_, err := c.Schedule(t.Context(), bad)
		if !errors.Is(err, timer.ErrInvalid) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want an ErrInvalid with %q", tt.name, err, tt.want)
		}
		err = c.ScheduleMany(t.Context(), good, bad)
		if !client.IsInvalid(err) || !strings.Contains(err.Error(), "timers[1]: ") || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s, among others: %v, want an ErrInvalid that names timers[1], with %q", tt.name, err, tt.want)
		}
		if len(p.messages) != 0 {
			t.Errorf("%s: %d messages were sent", tt.name, len(p.messages))
		}
	}
}

func TestAnErrorOfThePublisherComesWithTheVersion(t *testing.T) {
	t.Parallel()
	c, p := newClient()
	p.failAt = 1
	version, err := c.Schedule(t.Context(), client.Timer{TenantID: "acme", ServiceCallID: "order-1", DueAt: noon})
	if !errors.Is(err, errAway) || version.CommandID == "" || !strings.Contains(err.Error(), version.CommandID) {
		t.Errorf("%v, %v", version, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Cancel(ctx, timer.Key{TenantID: "acme", ServiceCallID: "order-1"}); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
}

func TestScheduleManyPacksByTenantAndCorrelation(t *testing.T) {
	t.Parallel()
	var timers []client.Timer
	add := func(n int, more client.Timer) {
		for i := range n {
			more.ServiceCallID = timer.ServiceCallID(fmt.Sprintf("order-%d", i))
			timers = append(timers, more)
		}
	}
	add(501, client.Timer{TenantID: "acme", After: time.Hour})
	add(2, client.Timer{TenantID: "umbrella", DueAt: noon})
	add(1, client.Timer{TenantID: "umbrella", DueAt: noon, CorrelationID: "req-7"})
	c, p := newClient()
	must(t, c.ScheduleMany(t.Context(), timers...))
	var got []string
	for _, payload := range p.payloads(t) {
		m := payload.(timer.ScheduleTimers)
		got = append(got, fmt.Sprintf("%d of %s %s", len(m.Commands), m.TenantID, m.Commands[0].CorrelationID))
	}
	want := []string{"500 of acme ", "1 of acme ", "2 of umbrella ", "1 of umbrella req-7"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestTheLastOfATimerWinsInScheduleMany, whichever message has it.
func TestTheLastOfATimerWinsInScheduleMany(t *testing.T) {
	t.Parallel()
	c, pub := newClient()
	must(t, c.ScheduleMany(t.Context(),
		client.Timer{TenantID: "acme", ServiceCallID: "1", DueAt: noon, CorrelationID: "a"},
		client.Timer{TenantID: "acme", ServiceCallID: "2", DueAt: noon, CorrelationID: "b"},
		client.Timer{TenantID: "acme", ServiceCallID: "2", DueAt: noon, CorrelationID: "a"},
	))
	var newest timer.ScheduleTimer
	for _, m := range pub.payloads(t) {
		for _, command := range m.(timer.ScheduleTimers).Commands {
			if command.ServiceCallID == "2" && command.Version.Compare(newest.Version) > 0 {
				newest = command
			}
		}
	}
	if newest.CorrelationID != "a" {
		t.Errorf("the newest command is that of %q, want a", newest.CorrelationID)
	}
}

func TestScheduleManyRefusesWhatNeedsAMessageOfItsOwn(t *testing.T) {
	t.Parallel()
	one := client.Timer{TenantID: "acme", ServiceCallID: "order-0", DueAt: noon}
	versioned, deep := one, one
	versioned.Version = timer.Version{TimestampMS: noon.UnixMilli(), CommandID: "given"}
	deep.Data = json.RawMessage(strings.Repeat("[", 13) + strings.Repeat("]", 13))
	for want, timers := range map[string][]client.Timer{
		"timers[0] has a version; send it with Schedule":                                        {versioned},
		"timers[1].serviceCallId \"order-0\" is also in timers[0]; name each service call once": {one, one},
		"body is nested deeper than 16":                                                         {deep},
	} {
		c, p := newClient()
		if err := c.ScheduleMany(t.Context(), timers...); !errors.Is(err, timer.ErrInvalid) || !strings.Contains(err.Error(), want) || len(p.messages) != 0 {
			t.Errorf("%v, %d messages; want %s", err, len(p.messages), want)
		}
	}
}

func TestMessagesOfScheduleManyFit(t *testing.T) {
	t.Parallel()
	long := func(i int) timer.ServiceCallID {
		return timer.ServiceCallID(fmt.Sprintf("%0128d", i))
	}
	timers := make([]client.Timer, 1000)
	for i := range timers {
		timers[i] = client.Timer{
			TenantID: timer.TenantID(strings.Repeat("t", 64)), ServiceCallID: long(i), CorrelationID: strings.Repeat("r", 128), DueAt: noon,
			Data: json.RawMessage(`"` + strings.Repeat("x", i*4) + `"`),
		}
	}
	c, p := newClient()
	must(t, c.ScheduleMany(t.Context(), timers...))
	largest, n := 0, 0
	for i, payload := range p.payloads(t) {
		largest = max(largest, len(p.messages[i].Payload))
		n += len(payload.(timer.ScheduleTimers).Commands)
	}
	if n != len(timers) || largest > envelope.MaxBytes || largest < envelope.MaxBytes*9/10 {
		t.Errorf("%d timers in messages of at most %d bytes", n, largest)
	}
}

func TestScheduleManySaysHowManyWereSent(t *testing.T) {
	t.Parallel()
	c, p := newClient()
	p.failAt = 2
	err := c.ScheduleMany(t.Context(), client.Timer{TenantID: "a", ServiceCallID: "1", After: 1}, client.Timer{TenantID: "a", ServiceCallID: "2", After: 1}, client.Timer{TenantID: "b", ServiceCallID: "1", After: 1})
	if !errors.Is(err, errAway) || !strings.Contains(err.Error(), "2 of 3 timers were sent") {
		t.Error(err)
	}
	if err := c.ScheduleMany(t.Context()); err != nil {
		t.Errorf("no timers at all: %v", err)
	}
}
