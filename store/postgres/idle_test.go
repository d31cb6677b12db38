package postgres_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/store/postgres"
)

// A statementTracer counts the statements that a handle sends.
type statementTracer struct{ sent int }

func (*statementTracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

func (s *statementTracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) { s.sent++ }

func (*statementTracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (s *statementTracer) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {
	s.sent++
}

func (*statementTracer) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// TestWhatAnIdleInstanceRepeatsIsOneStatement counts the statements of the calls that an instance
// makes once or twice a second while nothing happens.
func TestWhatAnIdleInstanceRepeatsIsOneStatement(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	open(t, url, relaxed) // migrates
	config, err := pgx.ParseConfig(url)
	must(t, err)
	trace := new(statementTracer)
	config.Tracer = trace
	db := stdlib.OpenDB(*config)
	t.Cleanup(func() { _ = db.Close() })
	s := postgres.New(db, relaxed)
	must(t, s.Check(t.Context())) // the first one checks more
	l, err := s.Own(t.Context(), outbox.Receivers{})
	must(t, err)
	calls := map[string]func() error{
		"Check": func() error { return s.Check(t.Context()) },
		"Head": func() error {
			_, err := l.Head(t.Context(), 0, 1000)
			return err
		},
		"TakeOver": func() error {
			_, err := s.TakeOver(t.Context())
			return err
		},
	}
	l.Release() // ends the heartbeats
	for name, call := range calls {
		trace.sent = 0
		must(t, call())
		if trace.sent != 1 {
			t.Errorf("%s sent %d statements, want one", name, trace.sent)
		}
	}
}
