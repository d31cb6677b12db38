package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/event-service-agent/timer-service/app/service"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/store"
)

type backupCmd struct {
	File  string   `arg:"" optional:"" help:"File for the copy. It must not exist."`
	Every duration `placeholder:"1h" help:"Make a copy this often in the folder of --to, until SIGINT or SIGTERM."`
	Keep  *int     `placeholder:"24" help:"How many copies are kept with --every."`
	To    string   `placeholder:"DIR" help:"Folder for the copies of --every. It must exist."`
}

// Help is printed below the summary.
func (backupCmd) Help() string {
	return `Copies the SQLite database, whether the service runs or not. The copy is a
consistent snapshot with everything that was acknowledged before. It is written as
FILE.partial, checked, synced to disk, and renamed to FILE.

With --every it makes copies until it is stopped, named by their time in UTC, and removes
the oldest ones. One that fails is logged and tried again. The service does the same by
itself with the settings backup_every, backup_dir and backup_keep.

To restore it, stop the service, remove the database with its -wal and -shm files,
move the copy to the path of the database, and start the service. For PostgreSQL use
its own tools.

Examples:

    timer-service backup /backup/timers-$(date +%F).db
    timer-service backup copy.db --db-path /var/lib/timers.db
    timer-service backup --every 1h --keep 24 --to /backup`
}

// Run makes the copy, or copies.
func (b *backupCmd) Run(ctx context.Context, e *env) error {
	if err := oneDatabase(e.cfg, "backup"); err != nil {
		return err
	}
	if !e.cfg.DBURL.Empty() {
		return wrong("backup", "%w", service.ErrNoBackup)
	}
	if err := b.check(); err != nil {
		return err
	}
	if b.Every != 0 {
		return b.again(ctx, e)
	}
	file, err := newPartialFile("backup", b.File)
	if err != nil {
		return err
	}
	defer file.discard()
	began := e.now()
	if err := copyDatabase(ctx, e, file.partial()); err != nil {
		return interrupted(ctx, err)
	}
	if isTerminal(e.stderr) {
		fmt.Fprintln(e.stderr, "checking the copy")
	}
	c, err := service.Inspect(ctx, file.partial())
	if err != nil {
		return interrupted(ctx, fmt.Errorf("check the copy: %w", err))
	}
	bytes, err := file.finish()
	if err != nil {
		return err
	}
	showBackup(e, service.Copy{File: b.File, Bytes: bytes, Took: e.now().Sub(began), Contents: c})
	return nil
}

// check returns what is wrong with the flags.
func (b *backupCmd) check() error {
	const verb = "backup"
	switch {
	case b.File != "" && (b.Every != 0 || b.To != ""):
		return wrong(verb, "a file is for one copy, --every and --to are for many; give either")
	case b.Every == 0 && b.To != "":
		return wrong(verb, "--to goes with --every, such as --every 1h; for one copy name its file")
	case b.Every == 0 && b.Keep != nil:
		return wrong(verb, "--keep goes with --every and --to")
	case b.Every == 0 && b.File == "":
		return wrong(verb, "name a file for the copy, or give --every and --to for one copy after the other")
	case b.Every == 0:
		return nil
	case b.To == "":
		return wrong(verb, "--every needs a folder for the copies: --to DIR")
	case time.Duration(b.Every) < time.Second:
		return wrong(verb, "--every must be 1s or more, such as 1h, not %s", config.FormatDuration(time.Duration(b.Every)))
	case b.Keep != nil && *b.Keep < 1:
		return wrong(verb, "--keep must be at least 1, not %d", *b.Keep)
	}
	if info, err := os.Stat(b.To); err != nil || !info.IsDir() {
		return wrong(verb, "there is no folder %s", b.To)
	}
	return nil
}

// again makes copies until ctx is done.
func (b *backupCmd) again(ctx context.Context, e *env) error {
	if _, err := os.Stat(e.cfg.DBPath); err != nil {
		return fmt.Errorf("there is no database to copy: %w", err)
	}
	cfg := e.cfg
	cfg.BackupEvery, cfg.BackupDir = time.Duration(b.Every), b.To
	if b.Keep != nil {
		cfg.BackupKeep = *b.Keep
	}
	return service.NewBackups(cfg, e.log, func(made service.Copy) { showBackup(e, made) }).Run(ctx)
}

// showBackup prints a copy that was made.
func showBackup(e *env, made service.Copy) {
	sum := store.Summary{Timers: made.Counts, Outbox: made.Outbox, Parked: made.Parked}
	done := showTransfer("backed up", made.File, sum, byteCount(made.Bytes), made.Took)
	done.SchemaVersion = made.SchemaVersion
	e.out.print(done)
}

// copyDatabase copies the database into a file, and shows the progress.
func copyDatabase(ctx context.Context, e *env, path string) error {
	p := newProgress(e, "MB copied")
	done := make(chan error, 1)
	go func() { done <- service.Backup(ctx, e.cfg, path) }()
	tick := time.NewTicker(terminalInterval)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			p.clear()
			return err
		case <-tick.C:
			if info, err := os.Stat(path); err == nil {
				p.add(int(info.Size()/1e6) - p.n)
			}
		}
	}
}

// oneDatabase returns an error if it is unclear which database is meant: a flag
// names a file, but a URL is set and would win.
func oneDatabase(cfg config.Config, verb string) error {
	for _, v := range cfg.Values() {
		if v.Key == "db_path" && v.From == config.FromFlag.String() && !cfg.DBURL.Empty() {
			return wrong(verb, `--db-path names a file, but db_url is set and wins: leave out --db-path, or add --db-url=""`)
		}
	}
	return nil
}
