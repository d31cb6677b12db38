package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// Limits of a page.
const (
	defaultPage = 100
	maxPage     = 1000
)

// NextDue returns the earliest due time of all Scheduled timers.
func (s *Store) NextDue(ctx context.Context) (time.Time, error) {
	var due int64
	err := s.read.QueryRowContext(ctx, sqlNextDue).Scan(&due)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return time.Time{}, nil
	case err != nil:
		return time.Time{}, classify("find the next due time", err)
	}
	return time.UnixMilli(due).UTC(), nil
}

// Get returns the timer, or [timer.ErrNotFound].
func (s *Store) Get(ctx context.Context, key timer.Key) (timer.Entry, error) {
	entries, err := s.entries(ctx, "get "+key.String(), sqlGet, string(key.TenantID), string(key.ServiceCallID))
	if err != nil {
		return timer.Entry{}, err
	}
	if len(entries) == 0 {
		return timer.Entry{}, fmt.Errorf("%s: %w", key, timer.ErrNotFound)
	}
	return entries[0], nil
}

// List returns a page of a tenant's timers.
func (s *Store) List(ctx context.Context, tenant timer.TenantID, f timer.Filter) ([]timer.Entry, error) {
	return s.entries(ctx, "list "+string(tenant), sqlList, string(tenant), string(f.After), string(f.State), page(f.Limit))
}

// Correlated returns timers of any tenant that carry the correlation id.
func (s *Store) Correlated(ctx context.Context, correlationID string, limit int) ([]timer.Entry, error) {
	return s.entries(ctx, "find by correlation id", sqlCorrelated, correlationID, page(limit))
}

func page(limit int) int {
	if limit <= 0 {
		return defaultPage
	}
	return min(limit, maxPage)
}

func (s *Store) entries(ctx context.Context, doing, text string, args ...any) ([]timer.Entry, error) {
	rows, err := s.read.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, classify(doing, err)
	}
	entries, err := scanEntries(rows)
	return entries, classify(doing, err)
}

// Stats counts what the store holds. It reads the whole table, about a second
// for ten million timers, without keeping writers waiting.
func (s *Store) Stats(ctx context.Context) (st timer.Stats, err error) {
	var next, oldest sql.NullInt64
	err = s.read.QueryRowContext(ctx, sqlStats).Scan(&st.Scheduled, &st.Reached, &st.Canceled, &next, &st.Outbox, &oldest, &st.Parked)
	if err != nil {
		return timer.Stats{}, classify("count timers", err)
	}
	st.NextDue, st.Oldest = instant(next), instant(oldest)
	return st, nil
}
