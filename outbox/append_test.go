package outbox_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/timer"
)

// A recorder is a transaction that remembers the rows of its statements.
type recorder struct {
	statements int
	args       [][]any // of each row
	err        error   // of each statement
	seen       context.Context
}

func (r *recorder) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	r.seen = ctx
	r.statements++
	if query != insert {
		return nil, errors.New("another statement: " + query)
	}
	for ; len(args) > 0; args = args[4:] {
		r.args = append(r.args, args[:4])
	}
	return driver.RowsAffected(len(r.args)), r.err
}

const insert = "insert rows"

func eventsToAppend(n int) []timer.DueTimeReached {
	events := make([]timer.DueTimeReached, n)
	for i := range events {
		events[i] = timer.DueTimeReached{
			Key:       timer.Key{TenantID: "acme", ServiceCallID: timer.ServiceCallID(fmt.Sprint("call-", i))},
			CommandID: "command", DueAt: time.UnixMilli(1e12), ReachedAt: time.UnixMilli(1e12 + int64(i)),
		}
	}
	return events
}

// TestAppendWritesWhatConsumersGet compares a row with the wire contract.
func TestAppendWritesWhatConsumersGet(t *testing.T) {
	t.Parallel()
	e := eventsToAppend(1)[0]
	e.CorrelationID, e.Trace = `req"7`, timer.Trace{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	var r recorder
	if err := outbox.Append(t.Context(), &r, insert, envelope.Format{}, e); err != nil {
		t.Fatal(err)
	}
	id := envelope.EventID(e)
	headers := `{"correlationId":"req\"7","messageId":"` + id + `","serviceCallId":"call-0","tenantId":"acme",` +
		`"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","type":"DueTimeReached"}`
	want := [][]any{{id, envelope.Reached(e), headers, int64(1e12)}}
	if diff := cmp.Diff(want, r.args); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
}

// Two formats in one outbox: the setting may change while events wait.
func TestAppendWritesTheFormatItIsGiven(t *testing.T) {
	t.Parallel()
	e := eventsToAppend(1)[0]
	var r recorder
	for _, format := range []envelope.Format{{}, {CloudEvents: true, Source: "urn:example:timers"}} {
		if err := outbox.Append(t.Context(), &r, insert, format, e); err != nil {
			t.Fatal(err)
		}
		row := r.args[len(r.args)-1]
		headers, err := envelope.DecodeHeaders(row[2].(string))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(format.HeadersOf(e), headers); diff != "" {
			t.Errorf("%+v: headers of the row (-want +got):\n%s", format, diff)
		}
		if diff := cmp.Diff(string(format.Reached(e)), string(row[1].([]byte))); diff != "" {
			t.Errorf("%+v: body of the row (-want +got):\n%s", format, diff)
		}
	}
}

// TestAppendKeepsTheOrder in one statement, with the context of the caller, and none for no event.
func TestAppendKeepsTheOrder(t *testing.T) {
	t.Parallel()
	type mark struct{}
	ctx := context.WithValue(t.Context(), mark{}, "ours")
	for _, n := range []int{0, 1, 149} {
		var r recorder
		events := eventsToAppend(n)
		if err := outbox.Append(ctx, &r, insert, envelope.Format{}, events...); err != nil {
			t.Fatal(err)
		}
		if r.statements != min(n, 1) || len(r.args) != n || n > 0 && r.seen.Value(mark{}) != "ours" {
			t.Errorf("%d events: %d statements with %d rows, in the context %v", n, r.statements, len(r.args), r.seen)
		}
		for i, args := range r.args {
			if args[0] != envelope.EventID(events[i]) || args[3] != events[i].ReachedAt.UnixMilli() {
				t.Errorf("%d events: row %d is that of %v", n, i, args)
			}
		}
	}
	full := errors.New("disk full")
	if err := outbox.Append(ctx, &recorder{err: full}, insert, envelope.Format{}, eventsToAppend(2)...); !errors.Is(err, full) || !strings.Contains(err.Error(), "append to the outbox") {
		t.Errorf("got %v, want the error of the statement", err)
	}
}

func BenchmarkAppend(b *testing.B) {
	events := eventsToAppend(1000)
	tx := discardTx{}
	for b.Loop() {
		if err := outbox.Append(b.Context(), tx, insert, envelope.Format{}, events...); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*len(events))/b.Elapsed().Seconds(), "events/s")
}

// discardTx is a transaction that does nothing.
type discardTx struct{}

func (discardTx) ExecContext(context.Context, string, ...any) (sql.Result, error) {
	return driver.RowsAffected(0), nil
}
