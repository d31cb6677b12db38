package service

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// An examinedStore is one that is examined.
type examinedStore interface {
	closingStore
	Version(ctx context.Context) (string, error)
}

// A databaseFound is what is known of the database.
type databaseFound struct {
	findings []Finding
	store    examinedStore // nil if it can't be used
	handle   *sql.DB       // of the store
	id, name string
	version  string
	skew     *time.Duration // how far its clock is ahead of ours; nil if it has none
	running  string         // who has the lock; empty if no process has, or that is unknown
}

func (d databaseFound) close() {
	if d.store != nil {
		_ = d.store.Close()
		_ = d.handle.Close()
	}
}

// database checks the database.
func (x *examination) database(ctx context.Context) (found databaseFound) {
	const check = "database"
	if x.isUnclear("db_", "durability") {
		found.findings = []Finding{warn(check, "correct the settings first", "not checked")}
		return found
	}
	name, inFile := storeName(x.cfg), x.cfg.DBURL.Empty()
	version, latest, _, err := Schema(ctx, x.cfg)
	if err != nil {
		do := "start the database server, and check db_url"
		if inFile {
			do = "see that this user may read the file, and restore a backup if it is corrupt"
		}
		found.findings = []Finding{bad(check, do, "%s: %s", name, oneLine(err))}
		return found
	}
	if inFile {
		found.findings = append(found.findings, x.lock(&found))
	}
	switch {
	case version > latest:
		found.findings = append(found.findings, bad("schema", "use the newer binary, or restore a backup of before", "version %d is newer than %d, which this binary knows", version, latest))
		return found
	case version == 0:
		found.findings = append(found.findings, ok("schema", "%s has none yet: the service makes it when it starts", name))
		return found
	case version < latest:
		found.findings = append(found.findings, warn("schema", "make a backup, then start the service, or run timer-service migrate", "version %d is older than %d: this binary migrates it", version, latest))
		return found
	}
	found.findings = append(found.findings, ok("schema", "version %d, that of this binary", version))
	found.use(ctx, x, name)
	return found
}

// lock says which process has the lock of the file.
func (x *examination) lock(found *databaseFound) Finding {
	const check = "lock"
	owner, err := sqlite.LockOwner(x.cfg.DBPath)
	switch {
	case err != nil:
		return bad(check, "see that this user may read the folder of db_path", "%v", err)
	case owner == "":
		return ok(check, "no service runs on this file")
	}
	found.running = owner
	return ok(check, "a service runs on this file: %s; another one would refuse to start", owner)
}

// use opens the database and tries what the service does with it.
func (d *databaseFound) use(ctx context.Context, x *examination, name string) {
	const check = "database"
	add := func(f Finding) { d.findings = append(d.findings, f) }
	var s examinedStore
	var file *sqlite.Store // nil if the database is none
	var denied []string
	var err error
	if x.cfg.DBURL.Empty() {
		if d.handle, err = sql.Open("sqlite", sqlite.DSN(x.cfg.DBPath)); err == nil {
			file = sqlite.New(d.handle, sqlite.Options{})
			s = file
		}
	} else if d.handle, err = postgres.Connect(x.cfg.DBURL.Reveal()); err == nil {
		durability := postgres.Strict
		if x.cfg.Durability == config.Relaxed {
			durability = postgres.Relaxed
		}
		p := postgres.New(d.handle, postgres.Options{Durability: durability})
		s = p
		if denied, err = p.Denied(ctx); err == nil && len(denied) > 0 {
			add(bad("permissions", "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA … TO the role of db_url", "the role may not read and change %s", strings.Join(denied, ", ")))
		} else if err == nil {
			add(ok("permissions", "the role may read and change all tables"))
		}
	}
	if err != nil {
		add(bad(check, "check db_path and db_url", "%s: %s", name, oneLine(err)))
		return
	}
	d.store = s
	if d.id, d.name, err = s.Identity(ctx); err == nil {
		d.version, err = s.Version(ctx)
	}
	if err == nil && len(denied) == 0 {
		err = s.Check(ctx)
	}
	if err != nil {
		add(bad(check, repair(err), "%s: %s", name, oneLine(err)))
		return
	}
	before := time.Now()
	if now, err := s.Now(ctx); err == nil {
		skew := now.Sub(before.Add(time.Since(before) / 2))
		d.skew = &skew
	}
	st, err := s.Stats(ctx)
	if err != nil {
		add(bad(check, repair(err), "%s: %s", name, oneLine(err)))
		return
	}
	add(ok(check, "%s answers and takes writes; timers that wait: %d, undelivered events: %d", name, st.Scheduled, st.Outbox))
	if file != nil {
		d.findings = append(d.findings, wholeFile(ctx, x.cfg.DBPath, file.QuickCheck)...)
	}
	if st.Damaged > 0 {
		add(warn("damaged", "check the disk and the memory of the machine; docs/operations.md says what becomes of them", "timers whose rows were damaged, and that did not fire: %d", st.Damaged))
	}
	if st.Parked > 0 {
		add(warn("outbox", "see why: timer-service parked list; then: timer-service parked retry", "events that the broker refused, and that are parked: %d", st.Parked))
	}
}

// wholeFile reads a file from its beginning to its end, if that is more than a start of
// the service does.
func wholeFile(ctx context.Context, path string, check func(context.Context) error) []Finding {
	const name = "file"
	info, err := os.Stat(path)
	if err != nil || info.Size() < sqlite.QuickCheckSize {
		return nil // it was checked before the first use
	}
	switch err := check(ctx); {
	case errors.Is(err, timer.ErrFatal):
		return []Finding{bad(name, repair(err), "%s", oneLine(err))}
	case err != nil:
		return []Finding{warn(name, "make a backup, of which all is checked: timer-service backup", "%d MiB could not be checked in time: %s", info.Size()>>20, oneLine(err))}
	}
	return []Finding{ok(name, "%d MiB have no damage", info.Size()>>20)}
}

// repair says what to do about an error of the database.
func repair(err error) string {
	switch text := err.Error(); {
	case errors.Is(err, timer.ErrFatal):
		return "the service would not start: correct what the message names"
	case strings.Contains(text, "full"):
		return "free space on the file system, or move the database to a larger one"
	case strings.Contains(text, "lock"):
		return "find the program that holds the lock (lsof, or pg_locks), and end it"
	case strings.Contains(text, "read-only"), strings.Contains(text, "permission denied"):
		return "give the user of the service the permission to write, or mount the file system for writing"
	}
	return "repair the database; docs/troubleshooting.md has the message"
}

// oneLine returns the text of an error on one line, without credentials.
func oneLine(err error) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(redactText(err.Error()), "\n", "; ")), " ")
}

// versions says what works together.
func (x *examination) versions(db databaseFound, b brokerFound) []Finding {
	all := []string{fmt.Sprintf("timer-service %s, %s", orDevel(x.cfg.Version), runtime.Version())}
	for _, v := range []string{db.version, b.Version} {
		if v != "" {
			all = append(all, v)
		}
	}
	return []Finding{ok("versions", "%s", strings.Join(all, ", "))}
}

func orDevel(v string) string {
	if v == "" {
		return "(devel)"
	}
	return v
}
