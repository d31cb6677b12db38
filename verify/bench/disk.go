package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"

	_ "modernc.org/sqlite" // the driver
)

// A DiskCost is what it takes to make something durable.
type DiskCost struct {
	What  string  `json:"what"`
	P50   float64 `json:"p50Ms"`
	P99   float64 `json:"p99Ms"`
	Every float64 `json:"perSecond"` // how many a second, one after the other
}

// Disk measures for so long each what a sync costs in a directory. A timer that
// is alone waits for two commits: that of its command and that of its event.
func Disk(ctx context.Context, dir string, duration time.Duration) (costs []DiskCost, err error) {
	if dir, err = os.MkdirTemp(dir, "timer-bench-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	page, err := syncPages(ctx, dir, duration)
	if err != nil {
		return nil, err
	}
	commit, err := commitRows(ctx, dir, duration)
	return []DiskCost{page, commit}, err
}

// syncPages appends pages to a file, as a log grows.
func syncPages(ctx context.Context, dir string, duration time.Duration) (c DiskCost, err error) {
	f, err := os.Create(filepath.Join(dir, "pages"))
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	page := make([]byte, 4096)
	return again(ctx, "write of 4 KiB and fdatasync", duration, func() error {
		if _, err := f.Write(page); err != nil {
			return err
		}
		return unix.Fdatasync(int(f.Fd()))
	})
}

// commitRows commits rows to a database like that of the service.
func commitRows(ctx context.Context, dir string, duration time.Duration) (c DiskCost, err error) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "rows.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, "CREATE TABLE rows (id INTEGER PRIMARY KEY, text TEXT)"); err != nil {
		return c, err
	}
	return again(ctx, "commit of a row by SQLite, WAL, synchronous=FULL", duration, func() error {
		_, err := db.ExecContext(ctx, "INSERT INTO rows (text) VALUES ('a timer')")
		return err
	})
}

func again(ctx context.Context, what string, duration time.Duration, fn func() error) (DiskCost, error) {
	var h histogram
	began, n := time.Now(), 0
	for ; n == 0 || time.Since(began) < duration && ctx.Err() == nil; n++ {
		start := time.Now()
		if err := fn(); err != nil {
			return DiskCost{}, fmt.Errorf("%s: %w", what, err)
		}
		h.add(time.Since(start))
	}
	return DiskCost{What: what, P50: h.at(50), P99: h.at(99), Every: rate(n, time.Since(began))}, ctx.Err()
}

// WriteDisk writes costs for people.
func WriteDisk(out io.Writer, costs []DiskCost) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\tp50, ms\tp99, ms\ta second")
	for _, c := range costs {
		fmt.Fprintf(t, "%s\t%.3f\t%.3f\t%.0f\n", c.What, c.P50, c.P99, c.Every)
	}
	_ = t.Flush() // output: an error means that the reader has gone
}
