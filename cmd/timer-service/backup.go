package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/service"
	"github.com/event-service-agent/timer-service/store"
)

type backupCmd struct {
	File string `arg:"" help:"File for the copy. It must not exist."`
}

// Help is printed below the summary.
func (backupCmd) Help() string {
	return `Copies the SQLite database, whether the service runs or not. The copy is a
consistent snapshot with everything that was acknowledged before. It is written as
FILE.partial, checked, synced to disk, and renamed to FILE. The service makes copies by
itself with the settings backup_every, backup_dir and backup_keep.

To restore it, stop the service, remove the database with its -wal and -shm files,
move the copy to the path of the database, and start the service. For PostgreSQL use
its own tools.

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
	if b.File == "-" {
		return wrong("backup", "backup does not write to stdout, since it checks the copy: name a file, as in ./copy.db")
	}
	began := time.Now()
	c, bytes, err := service.Backup(ctx, e.cfg, b.File)
	if err != nil {
		return existing("backup", interrupted(ctx, err))
	}
	made := backupResult{
		Result: "backed up", File: b.File, SchemaVersion: c.SchemaVersion, Counts: admin.Counts(c.Counts), Outbox: c.Outbox, Parked: c.Parked,
		Bytes: bytes, Seconds: time.Since(began).Seconds(),
	}
	e.out.print(made, fmt.Sprintf("backed up %s, %d events, %d parked, schema %d, to %s: %s in %.1f s",
		store.Summary{Timers: c.Counts}, c.Outbox, c.Parked, c.SchemaVersion, printable(b.File), humanize.Bytes(uint64(bytes)), made.Seconds))
	return nil
}

// A backupResult is the output of backup.
type backupResult struct {
	Result        string `json:"result"`
	File          string `json:"file"`
	SchemaVersion int64  `json:"schemaVersion"`
	admin.Counts
	Outbox  int64   `json:"outbox"`
	Parked  int64   `json:"parked"`
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"seconds"`
}

// existing returns err, which is a mistake of usage if it says that a file exists.
func existing(verb string, err error) error {
	if errors.Is(err, fs.ErrExist) {
		return wrong(verb, "%w", err)
	}
	return err
}

// oneDatabase returns an error if it is unclear which database is meant: a flag
// names a file, but a URL is set and would win.
func oneDatabase(cfg config.Config, verb string) error {
	if cfg.From("db_path") == config.FromFlag && !cfg.DBURL.Empty() {
		return wrong(verb, `--db-path names a file, but db_url is set and wins: leave out --db-path, or add --db-url=""`)
	}
	return nil
}
