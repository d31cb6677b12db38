package service

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"io"
	"log/slog"
	"time"

	"go.uber.org/fx"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// openStore opens the database, migrates it, and closes it last. If a shared database is not
// reachable yet, openStore waits for it until ctx ends.
func openStore(ctx context.Context, lc fx.Lifecycle, cfg config.Config, log *slog.Logger) (closingStore, error) {
	if cfg.DBURL.Empty() {
		ctx = context.WithoutCancel(ctx) // a start is not interrupted
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	s, err := awaitDatabase(ctx, cfg, log)
	if err != nil {
		return nil, err
	}
	lc.Append(closeHook("the database", s.Close))
	return s, nil
}

// A closingStore is a store that this package opened and closes.
type closingStore interface {
	app.Store
	store.Target
	io.Closer
	RegisteredBefore(ctx context.Context, before time.Time, limit int) (timer.Unprotected, error)
}

func openDatabase(ctx context.Context, cfg config.Config, log *slog.Logger) (closingStore, error) {
	if !cfg.DBURL.Empty() {
		return postgres.Open(ctx, cfg.DBURL.Reveal(), postgres.Options{Durability: postgresDurability(cfg), Events: eventFormat(cfg), Version: cfg.Version, Log: log})
	}
	durability := sqlite.Strict
	if cfg.Durability == config.Relaxed {
		durability = sqlite.Relaxed
	}
	return sqlite.Open(ctx, cfg.DBPath, sqlite.Options{Durability: durability, Events: eventFormat(cfg), Version: cfg.Version, Log: log})
}

const (
	databasePause = time.Second // between two tries to open the database
	logTries      = 30          // tries between two lines of the log
)

// awaitDatabase opens the database. If PostgreSQL does not answer yet, awaitDatabase waits as
// long as a start may take, because both may be started together.
func awaitDatabase(ctx context.Context, cfg config.Config, log *slog.Logger) (closingStore, error) {
	for tries := 0; ; tries++ {
		s, err := openDatabase(ctx, cfg, log)
		if err == nil || cfg.DBURL.Empty() || !postgres.IsAbsent(err) {
			return s, err
		}
		if tries%logTries == 0 {
			log.WarnContext(ctx, "waiting for the database", "error", err)
		}
		if !pause.For(ctx, databasePause) {
			return nil, err
		}
	}
}

func postgresDurability(cfg config.Config) postgres.Durability {
	if cfg.Durability == config.Relaxed {
		return postgres.Relaxed
	}
	return postgres.Strict
}

// storeName describes the store, without credentials.
func storeName(cfg config.Config) string {
	if !cfg.DBURL.Empty() {
		return "postgres " + cfg.DBURL.URL()
	}
	return "sqlite " + cfg.DBPath
}

// Reader opens the database for reading only, whether a service runs on it or not. The caller
// closes it.
func Reader(ctx context.Context, cfg config.Config) (interface {
	store.Source
	io.Closer
	DatabaseID(ctx context.Context) (string, error)
}, error,
) {
	if !cfg.DBURL.Empty() {
		return postgres.OpenReader(ctx, cfg.DBURL.Reveal())
	}
	return sqlite.OpenReader(ctx, cfg.DBPath)
}

// Migrate brings the schema of the database to the version of this binary, and creates a
// SQLite database if there is none. With reference it also adds a foreign key from timers to
// the table service_calls of the host program. It returns the version before and after.
func Migrate(ctx context.Context, cfg config.Config, reference bool) (from, to int64, err error) {
	migrate, tie := postgres.MigrateFrom, postgres.ReferenceServiceCalls
	if cfg.DBURL.Empty() {
		migrate, tie = sqlite.MigrateFrom, sqlite.ReferenceServiceCalls
		if err := sqlite.Create(cfg.DBPath); err != nil {
			return 0, 0, err
		}
	}
	db, err := handle(cfg)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(sqlite.Explain(cfg.DBPath, err), db.Close()) }()
	if from, to, err = migrate(ctx, db); err != nil || !reference {
		return from, to, err
	}
	return from, to, tie(ctx, db)
}

// handle returns a handle of the database, and creates nothing.
func handle(cfg config.Config) (*sql.DB, error) {
	if cfg.DBURL.Empty() {
		return sql.Open("sqlite", sqlite.DSN(cfg.DBPath))
	}
	return postgres.Connect(cfg.DBURL.Reveal())
}

// Schema returns the version of the database's schema, 0 if there is none, the version of
// this binary, and the statements of the migrations between. It changes nothing.
func Schema(ctx context.Context, cfg config.Config) (version, latest int64, script string, err error) {
	if cfg.DBURL.Empty() {
		if version, err = sqlite.VersionOf(ctx, cfg.DBPath); err == nil {
			script, err = sqlite.MigrationSQL(version)
		}
		return version, sqlite.SchemaVersion, script, err
	}
	db, err := postgres.Connect(cfg.DBURL.Reveal())
	if err != nil {
		return 0, 0, "", err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if version, err = postgres.VersionOf(ctx, db); err == nil {
		script, err = postgres.MigrationSQL(version)
	}
	return version, postgres.SchemaVersion, script, err
}

// migratable returns why a PostgreSQL server can't be used, or why the role may not create
// tables.
func migratable(ctx context.Context, cfg config.Config) error {
	db, err := postgres.Connect(cfg.DBURL.Reveal())
	if err != nil {
		return err
	}
	s := postgres.New(db, postgres.Options{Durability: postgresDurability(cfg)})
	return errors.Join(cmp.Or(s.CheckServer(ctx), postgres.Migratable(ctx, db)), db.Close())
}

// SchemaVersions returns the version of each schema that this binary works
// with.
func SchemaVersions() map[string]int64 {
	return map[string]int64{"sqlite": sqlite.SchemaVersion, "postgres": postgres.SchemaVersion}
}
