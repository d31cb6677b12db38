package service

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/internal/symptom"
	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// An examinedStore is a store that the doctor examines.
type examinedStore interface {
	closingStore
	Version(ctx context.Context) (string, error)
}

// A databaseFound is what the examination knows of the database.
type databaseFound struct {
	checks   []app.Check
	store    examinedStore // nil if it can't be used
	handle   *sql.DB       // of the store
	id, name string
	version  string
	skew     *time.Duration // how far its clock is ahead of ours; nil if it has none
}

func (d *databaseFound) add(c app.Check) { d.checks = append(d.checks, c) }

func (d *databaseFound) close() {
	if d.store != nil {
		_ = d.store.Close()
		_ = d.handle.Close()
	}
}

// database checks the database.
func (x *examination) database(ctx context.Context) (d databaseFound) {
	if x.isUnclear("db_", "durability") {
		d.checks = of("database", found(symptom.NotChecked))
		return d
	}
	name, inFile := storeName(x.cfg), x.cfg.DBURL.Empty()
	version, latest, _, err := Schema(ctx, x.cfg)
	if err != nil {
		s := symptom.ServerFails
		switch {
		case errors.Is(err, timer.ErrFatal):
			s = symptom.Unusable
		case inFile:
			s = symptom.FileFails
		}
		d.add(found(s, name, oneLine(err)))
		return d
	}
	if inFile {
		d.add(x.lock())
	}
	if !inFile && version < latest {
		switch err := migratable(ctx, x.cfg); {
		case errors.Is(err, timer.ErrFatal):
			d.add(found(symptom.Unusable, name, oneLine(err)))
			return d
		case err != nil:
			d.add(found(symptom.SchemaDenied, version, latest, oneLine(err)))
			return d
		}
	}
	switch {
	case version > latest:
		d.add(found(symptom.SchemaNewer, version, latest))
	case version == 0:
		d.add(ok("schema", "%s has none yet: the service makes it when it starts", name))
	case version < latest:
		d.add(found(symptom.SchemaOlder, version, latest))
	default:
		d.add(ok("schema", "version %d, that of this binary", version))
		if err := d.use(ctx, x, name); err != nil {
			d.add(found(broken(err), name, oneLine(err)))
		}
	}
	return d
}

// lock reports which process has the lock of the file.
func (x *examination) lock() app.Check {
	owner, err := sqlite.LockOwner(x.cfg.DBPath)
	switch {
	case err != nil:
		return found(symptom.LockUnknown, err)
	case owner == "":
		return ok("lock", "no service runs on this file")
	}
	return ok("lock", "a service runs on this file: %s; another one would refuse to start", owner)
}

// use opens the database and tries the operations of the service.
func (d *databaseFound) use(ctx context.Context, x *examination, name string) (err error) {
	var file *sqlite.Store // nil if the database is no file
	try := func(ctx context.Context) error { return d.store.Check(ctx) }
	if x.cfg.DBURL.Empty() {
		if d.handle, err = sql.Open("sqlite", sqlite.DSN(x.cfg.DBPath)); err != nil {
			return err
		}
		file = sqlite.New(d.handle, sqlite.Options{})
		d.store = file
	} else {
		if d.handle, err = postgres.Connect(x.cfg.DBURL.Reveal()); err != nil {
			return err
		}
		p := postgres.New(d.handle, postgres.Options{Durability: postgresDurability(x.cfg)})
		d.store = p
		denied, err := p.Denied(ctx)
		switch {
		case err != nil:
			return err
		case len(denied) > 0:
			d.add(found(symptom.NoGrants, strings.Join(denied, ", ")))
			try = func(context.Context) error { return nil }
		default:
			d.add(ok("permissions", "the role may read and change all tables"))
		}
		if on, err := p.Checksums(ctx); on {
			d.add(ok("checksums", "the server notices pages that its disk has changed"))
		} else if err == nil { // else the checks below report the error
			d.add(found(symptom.NoChecksums))
		}
	}
	if d.id, d.name, err = d.store.Identity(ctx); err != nil {
		return err
	}
	if d.version, err = d.store.Version(ctx); err != nil {
		return err
	}
	if err := try(ctx); err != nil {
		return err
	}
	before := time.Now()
	if shared := d.store.Shared(); shared != nil {
		if now, err := shared.Now(ctx); err == nil {
			d.skew = new(now.Sub(before.Add(time.Since(before) / 2)))
		}
	}
	st, err := d.store.Timers().Stats(ctx, "")
	if err != nil {
		return err
	}
	d.add(ok("database", "%s answers and takes writes; timers that wait: %d, undelivered events: %d", name, st.Scheduled, st.Outbox))
	if file != nil {
		d.wholeFile(x.cfg.DBPath, func() error { return file.QuickCheck(ctx) })
	}
	if st.Parked > 0 {
		d.add(found(symptom.Parked, st.Parked))
	}
	return nil
}

// wholeFile reads a file to its end, and reports a fault that a start of the service would
// not find.
func (d *databaseFound) wholeFile(path string, check func() error) {
	info, err := os.Stat(path)
	if err != nil || info.Size() < sqlite.QuickCheckSize {
		return // it was checked before the first use
	}
	switch err := check(); {
	case errors.Is(err, timer.ErrFatal):
		d.add(found(symptom.FileDamaged, oneLine(err)))
	case err != nil:
		d.add(found(symptom.FileUnchecked, info.Size()>>20, oneLine(err)))
	default:
		d.add(ok("file", "%d MiB have no damage", info.Size()>>20))
	}
}

// broken returns the symptom of an error of the database.
func broken(err error) symptom.Symptom {
	if errors.Is(err, timer.ErrFatal) {
		return symptom.Unusable
	}
	for _, is := range []struct {
		word string
		symptom.Symptom
	}{{"full", symptom.Full}, {"lock", symptom.Locked}, {"read-only", symptom.NotWritable}, {"permission denied", symptom.NotWritable}} {
		if strings.Contains(err.Error(), is.word) {
			return is.Symptom
		}
	}
	return symptom.Broken
}

// oneLine returns the text of an error on one line, without credentials.
func oneLine(err error) string {
	text := credentials.ReplaceAllString(err.Error(), "://***@")
	return strings.Join(strings.Fields(strings.ReplaceAll(text, "\n", "; ")), " ")
}

// versions returns a check with the versions of all parts.
func (x *examination) versions(db databaseFound, b brokerFound) []app.Check {
	all := []string{"timer-service " + cmp.Or(x.cfg.Version, "(devel)"), runtime.Version(), db.version, b.Version}
	known := slices.DeleteFunc(all, func(v string) bool { return v == "" })
	return []app.Check{ok("versions", "%s", strings.Join(known, ", "))}
}
