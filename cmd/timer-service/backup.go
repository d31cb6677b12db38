package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/event-service-agent/timer-service/app/service"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

type backupCmd struct {
	File string `arg:"" help:"File for the copy. It must not exist."`
}

// Help is printed below the summary.
func (backupCmd) Help() string {
	return `Copies the SQLite database while the service runs, or while it does not. The copy
is of one moment and has everything that was acknowledged before. It is written
as FILE.partial, checked, counted, and gets its name when it is whole and on the
disk. To restore it, stop the service, remove the database with its -wal and
-shm, put the copy in its place, and start. PostgreSQL has tools of its own.

Examples:

    timer-service backup /backup/timers-$(date +%F).db
    timer-service backup copy.db --db-path /var/lib/timers.db`
}

// Run makes the copy.
func (b *backupCmd) Run(ctx context.Context, e *env) error {
	if err := oneDatabase(e.cfg, "backup"); err != nil {
		return err
	}
	if !e.cfg.DBURL.Empty() {
		return wrong("backup", "%w", service.ErrNoBackup)
	}
	file, err := newWholeFile("backup", b.File)
	if err != nil {
		return err
	}
	defer file.discard()
	began := e.now()
	if err := copying(ctx, e, file); err != nil {
		return interrupted(ctx, err)
	}
	bytes, err := file.sync()
	if err != nil {
		return err
	}
	if isTerminal(e.stderr) {
		fmt.Fprintf(e.stderr, "checking %s\n", size(bytes))
	}
	c, err := service.Inspect(ctx, file.partial())
	if err != nil {
		return interrupted(ctx, fmt.Errorf("check the copy: %w", err))
	}
	if err := file.finish(); err != nil {
		return err
	}
	e.out.print(&backedUp{
		Result: "backed up", File: b.File, Bytes: bytes, SchemaVersion: c.SchemaVersion,
		counts: counts(c.Counts), Outbox: c.Outbox, Parked: c.Parked, Seconds: e.now().Sub(began).Seconds(),
	})
	return nil
}

// copying copies the database, and shows how much of it is there.
func copying(ctx context.Context, e *env, file *wholeFile) error {
	p := newProgress(e, "MB copied")
	done := make(chan error, 1)
	go func() { done <- service.Backup(ctx, e.cfg, file.partial()) }()
	tick := time.NewTicker(progressBlink)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			p.clear()
			return err
		case <-tick.C:
			if info, err := os.Stat(file.partial()); err == nil {
				p.add(int(info.Size()/1e6) - p.n)
			}
		}
	}
}

// A backedUp is what backup prints.
type backedUp struct {
	Result        string `json:"result"`
	File          string `json:"file"`
	Bytes         int64  `json:"bytes"`
	SchemaVersion int64  `json:"schemaVersion"`
	counts
	Outbox  int64   `json:"outbox"`
	Parked  int64   `json:"parked"`
	Seconds float64 `json:"seconds"`
}

func (b *backedUp) text() string {
	sum := store.Summary{Timers: timer.Counts(b.counts), Outbox: b.Outbox, Parked: b.Parked}
	return fmt.Sprintf("backed up %s, schema %d, to %s: %s in %.1f s", sum, b.SchemaVersion, printable(b.File), size(b.Bytes), b.Seconds)
}

// size returns a number of bytes for people.
func size(bytes int64) string { return fmt.Sprintf("%.1f MB", float64(bytes)/1e6) }

// oneDatabase returns an error if it could be misunderstood which database is
// meant: the file is named, but a URL is set and would win.
func oneDatabase(cfg config.Config, verb string) error {
	for _, v := range cfg.Values() {
		if v.Key == "db_path" && v.From == config.FromFlag.String() && !cfg.DBURL.Empty() {
			return wrong(verb, `--db-path names a file, but db_url is set and wins: leave out --db-path, or add --db-url=""`)
		}
	}
	return nil
}
