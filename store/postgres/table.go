package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/event-service-agent/timer-service/internal/failpoint"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// A shard is a part of the outbox. The [Store] itself has shard 0.
type shard struct {
	store    *Store
	number   int32
	readable func() error // of a lease: nil as long as no other instance can own the shard
}

var _ outbox.Table = shard{}

// Outbox returns the outbox, in shards.
func (s *Store) Outbox() outbox.Outbox { return outbox.Outbox{Taker: s, Shards: s} }

// Head returns the first rows of the shard after a number that are not deferred. An idle instance
// asks for the first rows all the time, so that costs one statement while there are none.
func (s shard) Head(ctx context.Context, after int64, limit int) ([]outbox.Row, error) {
	if after == 0 {
		var first int64
		err := s.store.seek(ctx, "read the outbox", sqlFirst, []any{s.number}, store.Scan(&first))
		if err != nil || first == 0 {
			return nil, cmp.Or(s.owned(), err)
		}
	}
	return s.events(ctx, sqlHead, s.number, after, int64(limit))
}

// Deferred returns deferred rows of the shard that are due.
func (s shard) Deferred(ctx context.Context, now time.Time, from string, limit, each int) ([]outbox.Row, error) {
	return s.events(ctx, sqlDeferred, s.number, now, from, int64(limit), int64(each))
}

// owned returns nil as long as the lease of the shard is certain.
func (s shard) owned() error {
	if s.readable == nil {
		return nil
	}
	return s.readable()
}

// NextRetry returns when the next deferred row of the shard is due, after a time.
func (s shard) NextRetry(ctx context.Context, after time.Time) (next time.Time, err error) {
	err = s.store.rows(ctx, "find the next retry", sqlNextRetry, []any{s.number, after}, store.Scan((*store.Time)(&next)))
	return next, err
}

// events reads rows of the outbox.
func (s shard) events(ctx context.Context, text string, args ...any) (events []outbox.Row, err error) {
	if err := s.owned(); err != nil {
		return nil, err
	}
	err = s.store.rows(ctx, "read the outbox", text, args, func(row store.Scanner) error {
		event, err := outbox.ReadRow(row.Scan)
		event.Shard = int(s.number)
		events = append(events, event)
		return err
	})
	return events, err
}

// Delete removes rows from the shard.
func (s shard) Delete(ctx context.Context, rows ...outbox.Place) error {
	return s.store.writing(ctx, "delete from the outbox", func(_ context.Context, t *transaction) error {
		runs := outbox.Runs(rows)
		for _, deferred := range [...]bool{false, true} {
			var first, last []int64
			for _, r := range runs {
				if r.Deferred == deferred {
					first, last = append(first, r.First), append(last, r.Last)
				}
			}
			if len(first) > 0 {
				t.later(step{text: sqlDelete.On(deferred), args: []any{s.number, first, last, first[0], last[len(last)-1]}, done: func(pgconn.CommandTag) { failpoint.Here("deleting") }})
			}
		}
		return nil
	})
}

// Defer counts an attempt of rows and moves them behind the others.
func (s shard) Defer(ctx context.Context, rows ...outbox.Deferral) error {
	return s.store.writing(ctx, "defer events", func(_ context.Context, t *transaction) error {
		for _, deferred := range [...]bool{false, true} {
			var seqs []int64
			var reasons, destinations []string
			var times []time.Time
			var attempts []int32
			var shards []int16
			for _, d := range rows {
				if d.Deferred == deferred {
					seqs, reasons, destinations = append(seqs, d.Seq), append(reasons, store.Printable(d.Reason)), append(destinations, store.Printable(d.Destination))
					times, attempts = append(times, d.RetryAt), append(attempts, int32(d.Attempts()))
					to := s.number
					if d.Unclaimed {
						to = unclaimed
					}
					shards = append(shards, int16(to))
				}
			}
			if len(seqs) > 0 {
				t.later(step{text: sqlDefer.On(deferred), args: []any{s.number, seqs, reasons, destinations, times, attempts, shards}})
			}
		}
		return nil
	})
}

// unclaimed is the number of the shard that no instance owns. It has deferred events only,
// for which there is no handler.
const unclaimed = -1

// Claim moves unclaimed rows to the end of the shard.
func (s shard) Claim(ctx context.Context, prefix string, limit int) (claimed int, err error) {
	err = s.store.write(ctx, "claim events", sqlClaim, []any{s.number, prefix, outbox.Behind(prefix), int64(limit)}, store.Scan(&claimed))
	if err != nil {
		return 0, err
	}
	return claimed, nil
}

// Hasten makes all deferred rows of the shard due now.
func (s shard) Hasten(ctx context.Context, now time.Time) error {
	return store.InSteps(store.HastenRows, func() (int, error) {
		return s.store.change(ctx, "hasten events", sqlHasten, s.number, timer.RoundDown(now), int64(store.HastenRows))
	})
}

// Park moves a row out of the shard.
func (s shard) Park(ctx context.Context, now time.Time, row outbox.Place, reason string) error {
	return s.store.writing(ctx, "park an event", func(_ context.Context, t *transaction) error {
		t.later(step{text: sqlPark.On(row.Deferred), args: []any{s.number, row.Seq, store.Printable(reason), timer.RoundDown(now)}})
		return nil
	})
}

// Emit appends events to the store's own shard of the outbox.
func (t *transaction) Emit(ctx context.Context, events ...timer.DueTimeReached) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := outbox.Append(ctx, appender{t}, sqlAppend, t.store.opt.Events, events...)
	failpoint.Here("emitted")
	return err
}

// EmitReceipts appends receipts to the store's own shard of the outbox.
func (t *transaction) EmitReceipts(ctx context.Context, receipts ...timer.Receipt) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return outbox.AppendReceipts(ctx, appender{t}, sqlAppend, t.store.opt.Events, receipts...)
}

// An appender sends the statement that adds events, with the next statement or with the
// commit. The statement is the same for any number of events, because their columns are
// arrays.
type appender struct{ *transaction }

// rowColumns is how many values a row has: id, payload, headers and time.
const rowColumns = 4

// ExecContext gets the values row by row and sends them column by column.
func (a appender) ExecContext(_ context.Context, text string, args ...any) (sql.Result, error) {
	n := len(args) / rowColumns
	ids, payloads := make([]string, n), make([][]byte, n)
	headers, times := make([]string, n), make([]int64, n)
	for i := range n {
		row := args[i*rowColumns:]
		ids[i], payloads[i], headers[i], times[i] = row[0].(string), row[1].([]byte), row[2].(string), row[3].(int64)
	}
	a.later(step{text: text, args: []any{ids, payloads, headers, times, a.store.appending.Load()}})
	return driver.RowsAffected(n), nil
}
