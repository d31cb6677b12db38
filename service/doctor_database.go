package service

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/internal/symptom"
	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// A databaseFound holds the facts that the examination has found out about the database.
type databaseFound struct {
	checks   []app.Check
	store    closingStore // nil if it can't be used
	handle   *sql.DB      // of the store
	id, name string
	empty    bool           // like a new one: it has no schema yet, or nothing in it
	skew     *time.Duration // how far its clock is ahead of ours; nil if it has none
}

func (d *databaseFound) add(c app.Check) { d.checks = append(d.checks, c) }

// fails reports an error of the database.
func (d *databaseFound) fails(name string, err error) {
	s := symptom.DatabaseFails
	if errors.Is(err, timer.ErrFatal) {
		s = symptom.Unusable
	}
	d.add(found(s, name, oneLine(err)))
}

func (d *databaseFound) close() {
	if d.store != nil {
		_ = d.store.Close()
		_ = d.handle.Close()
	}
}

// database checks the database.
func (x *examination) database(ctx context.Context) (d databaseFound) {
	name, inFile := storeName(x.cfg), x.cfg.DBURL.Empty()
	version, latest, _, err := Schema(ctx, x.cfg)
	if err == nil && inFile {
		err = d.lock(x.cfg.DBPath)
	}
	if err == nil && !inFile && version < latest {
		err = migratable(ctx, x.cfg)
	}
	switch {
	case err != nil:
		d.fails(name, err)
	case version > latest:
		d.add(found(symptom.SchemaNewer, version, latest))
	case version == 0:
		d.empty = true
		d.add(ok("schema", "%s has none yet: the service makes it when it starts", name))
	case version < latest:
		d.add(found(symptom.SchemaOlder, version, latest))
	default:
		d.add(ok("schema", "version %d, that of this binary", version))
		if err := d.use(ctx, x, name); err != nil {
			d.fails(name, err)
		}
	}
	return d
}

// lock reports which process has the lock of the file.
func (d *databaseFound) lock(path string) error {
	owner, err := sqlite.LockOwner(path)
	switch {
	case err != nil:
		return err
	case owner == "":
		d.add(ok("lock", "no service runs on this file"))
	default:
		d.add(ok("lock", "a service runs on this file: %s; another one would refuse to start", owner))
	}
	return nil
}

// use opens the database and tries the operations of the service.
func (d *databaseFound) use(ctx context.Context, x *examination, name string) (err error) {
	if d.handle, err = handle(x.cfg); err != nil {
		return err
	}
	if x.cfg.DBURL.Empty() {
		d.store = sqlite.New(d.handle, sqlite.Options{})
	} else {
		p := postgres.New(d.handle, postgres.Options{Durability: postgresDurability(x.cfg)})
		d.store = p
		if err := d.server(ctx, p); err != nil {
			return err
		}
	}
	if d.id, d.name, err = d.store.Identity(ctx); err != nil {
		return err
	}
	if err := d.store.Check(ctx); err != nil {
		return err
	}
	known, err := d.store.Recovery().Known(ctx)
	if err != nil {
		return err
	}
	d.empty = known.Empty
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
	if st.Parked > 0 {
		d.add(found(symptom.Parked, st.Parked))
	}
	failing, err := d.store.Timers().Failing(ctx)
	if len(failing) > 0 && !x.asked {
		d.add(app.CheckDestinations(failing))
	}
	return err
}

// server checks the properties that only a server of PostgreSQL has.
func (d *databaseFound) server(ctx context.Context, p *postgres.Store) error {
	denied, err := p.Denied(ctx)
	if err != nil {
		return err
	}
	if denied != "" {
		d.add(found(symptom.NoGrants, denied))
	} else {
		d.add(ok("permissions", "the role may read and change all tables"))
	}
	on, err := p.Checksums(ctx)
	if err == nil && !on {
		d.add(found(symptom.NoChecksums))
	}
	return err
}
