package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/event-service-agent/timer-service/timer"
)

var _ timer.Repairer = (*Store)(nil)

// A sum is the checksum in a row.
type sum struct {
	known bool
	value int32
}

// Scan keeps the column. What is no number is none that a row matches.
func (s *sum) Scan(column any) error {
	n, ok := column.(int64)
	*s = sum{known: column != nil, value: int32(n)}
	if !ok && column != nil || int64(int32(n)) != n {
		return fmt.Errorf("is %v, want a checksum", column)
	}
	return nil
}

// matches reports whether a timer is as its command had it, as far as that is known.
func (s sum) matches(e *timer.Entry) bool { return !s.known || s.value == e.Checksum() }

// setAside moves damaged rows to timer_damaged.
func (t *transaction) setAside(ctx context.Context, now time.Time, rowids ...int64) error {
	for _, rowid := range rowids {
		if _, err := t.ExecContext(ctx, sqlSetAside, rowid, now.UnixMilli()); err != nil {
			return err
		}
		for _, text := range [...]string{sqlSetAsideCount, sqlSetAsideDelete} {
			if _, err := t.ExecContext(ctx, text, rowid); err != nil {
				return err
			}
		}
		t.damaged++
	}
	return nil
}

// errIndexes says that what an index has is not what the rows have.
var errIndexes = errors.New("an index does not match the timers, the file is damaged: the indexes are made again")

// corruptIndex is the code of a row that is to be changed and has no entry in an index.
const corruptIndex = sqlite3.SQLITE_CORRUPT | 3<<8

// isIndexes reports whether indexes made again would mend an error.
func isIndexes(err error) bool { return errors.Is(err, errIndexes) || codeOf(err) == corruptIndex }

// noteIndexes has the next transaction make the indexes again, if that mends an error.
// In a transaction that did so already it is one that ends the service.
func (t *transaction) noteIndexes(err error) error {
	switch {
	case !isIndexes(err):
		return err
	case t.repaired:
		return fmt.Errorf("%w: %s: %w", timer.ErrFatal, wayOut, err)
	}
	t.store.indexes.Store(true)
	return fmt.Errorf("%w: %w", errIndexes, err)
}

// repair makes the indexes of the timers and the counts of the tenants again from the
// rows, as large as they are, and moves those that no index would find to timer_damaged.
func (t *transaction) repair(ctx context.Context) error {
	t.repaired = true
	defer t.sortInFiles(ctx)()
	for _, text := range [...]string{`REINDEX timer_schedules`, `REINDEX timer_counts`} {
		_, err := t.session.ExecContext(ctx, text)
		switch codeOf(err) & 0xff {
		case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_CONSTRAINT:
			return fmt.Errorf("%w: make the indexes again: %s: %w", timer.ErrFatal, wayOut, err)
		}
		if err != nil {
			return fmt.Errorf("make the indexes again: %w", err)
		}
	}
	for _, text := range [...]string{sqlUncount, sqlRecount} {
		if _, err := t.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	rows, err := t.QueryContext(ctx, sqlStateless)
	if err != nil {
		return err
	}
	defer rows.Close()
	var rowids []int64
	for rows.Next() {
		var rowid int64
		if err := rows.Scan(&rowid); err != nil {
			return err
		}
		rowids = append(rowids, rowid)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	return t.setAside(ctx, time.Now(), rowids...) //nolint:forbidigo // of the finding, not of timers
}

// logRepairs logs what was committed.
func (t *transaction) logRepairs(ctx context.Context) {
	if t.repaired {
		t.store.opt.Log.ErrorContext(ctx, "an index did not match the timers, and was made again from them: check the disk", "path", t.path)
	}
	if t.damaged > 0 {
		t.store.opt.Log.ErrorContext(ctx, "damaged timers were set aside, and do not fire: check the disk", "timers", t.damaged, "path", t.path)
	}
}

// Damaged returns a page of damaged rows.
func (r *Reader) Damaged(ctx context.Context, after int64, limit int) (damaged []timer.DamagedRow, err error) {
	const doing = "list damaged timers"
	rows, err := r.reads.QueryContext(ctx, sqlDamaged, after, timer.PageSize(limit))
	if err != nil {
		return nil, classify(doing, err)
	}
	defer rows.Close()
	for rows.Next() {
		var d timer.DamagedRow
		var due sql.NullInt64
		var found int64
		if err := rows.Scan(&d.Seq, (*string)(&d.TenantID), (*string)(&d.ServiceCallID), &due, &d.TimestampMS, &d.CommandID, &found); err != nil {
			return nil, classify(doing, err)
		}
		d.DueAt, d.FoundAt = instant(due), time.UnixMilli(found).UTC()
		damaged = append(damaged, d)
	}
	return damaged, classify(doing, rows.Err())
}

// DiscardDamaged deletes damaged rows.
func (s *Store) DiscardDamaged(ctx context.Context, seqs ...int64) (discarded int, err error) {
	if len(seqs) == 0 {
		return 0, nil
	}
	err = s.writing(ctx, "discard damaged timers", func(ctx context.Context, t *transaction) error {
		discarded = 0
		for _, seq := range seqs {
			n, err := t.change(ctx, sqlDiscardDamaged, seq)
			if err != nil {
				return err
			}
			discarded += int(n)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return discarded, nil
}

// QuickCheckSize is up to which size a file is checked before the first use: larger ones
// would keep the service from starting for more than a few seconds.
const QuickCheckSize = 1 << 30

// wayOut is what to do about a file that is damaged.
const wayOut = "the file is damaged: restore a backup, or delete the file, and start: what the broker still has is recovered"

// quickCheck returns an error that wraps [timer.ErrFatal] if a small file is damaged.
func (s *Store) quickCheck(ctx context.Context, path string) error {
	if path == "" {
		return nil
	}
	if info, err := os.Stat(path); err != nil || info.Size() >= QuickCheckSize {
		return err
	}
	return s.QuickCheck(ctx)
}

// QuickCheck reads the whole file, and returns an error that wraps [timer.ErrFatal] if it
// is damaged. It does not compare the indexes with the rows, as [Inspect] does.
func (r *Reader) QuickCheck(ctx context.Context) error {
	const doing = "check the file"
	var found string // "ok", or the first fault
	if err := r.reads.QueryRowContext(ctx, `PRAGMA quick_check(1)`).Scan(&found); err != nil {
		return classify(doing, err)
	}
	if found != "ok" {
		return fmt.Errorf("%w: %s: %s: %s", timer.ErrFatal, doing, wayOut, found)
	}
	return nil
}
