package postgresd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/event-service-agent/timer-service/internal/pause"
)

// A Standby is a server that streams the log of another one, the primary, and replays it. It
// takes no writes until it is promoted.
type Standby struct {
	*Server

	primary *Server
	parent  string // directory that [Start] was given
}

// standbyName is the application name of a standby in the sessions of its primary.
const standbyName = "standby"

// StartStandby makes a standby of a primary that runs, in a directory and on a port as those
// of [Start], and waits until it has all that the primary has.
func StartStandby(ctx context.Context, primary *Server, dir string, port int) (*Standby, error) {
	if err := primary.backUp(ctx, filepath.Join(dir, "postgres")); err != nil {
		return nil, fmt.Errorf("copy the primary: %w", err)
	}
	server, err := Start(ctx, dir, port)
	if err != nil {
		return nil, err
	}
	s := &Standby{server, primary, dir}
	if err := s.CatchUp(ctx); err != nil {
		s.Kill()
		return nil, err
	}
	return s, nil
}

// CatchUp waits until the standby has replayed all that the primary has committed.
func (s *Standby) CatchUp(ctx context.Context) error { return s.awaitPlace(ctx, "replay_lsn") }

// Receive waits until the standby has received all that the primary has committed. It may not
// have replayed it.
func (s *Standby) Receive(ctx context.Context) error { return s.awaitPlace(ctx, "flush_lsn") }

// awaitPlace waits until a place of the standby in the log, a column of what the primary knows of
// it, is where the primary is.
func (s *Standby) awaitPlace(ctx context.Context, place string) error {
	return s.primary.poll(ctx, `
SELECT count(*) > 0 FROM pg_stat_replication
 WHERE application_name = '`+standbyName+`' AND state = 'streaming' AND `+place+` >= pg_current_wal_lsn()`)
}

// Pause stops the replay. The standby goes on to receive the commits of the primary.
func (s *Standby) Pause(ctx context.Context) error {
	return s.poll(ctx, `SELECT pg_get_wal_replay_pause_state() = 'paused' FROM (SELECT pg_wal_replay_pause()) AS asked`)
}

// Promote makes the standby a primary that has all that it received, and returns its server.
// The other one must have ended.
func (s *Standby) Promote(ctx context.Context) (*Server, error) {
	if err := s.poll(ctx, `SELECT pg_promote(true)`); err != nil {
		return nil, fmt.Errorf("promote the standby: %w", err)
	}
	return s.Server, nil
}

// PromoteBefore is [Standby.Promote], but of a standby that lacks a transaction, and all that
// was committed after it: as if it had received no more. It must have received the
// transaction, and not replayed it: see [Standby.Pause].
func (s *Standby) PromoteBefore(ctx context.Context, xid int64) (*Server, error) {
	s.Kill()
	server, err := start(ctx, s.parent, s.port, "-c", "recovery_target_xid="+strconv.FormatInt(xid, 10),
		"-c", "recovery_target_inclusive=off", "-c", "recovery_target_action=promote")
	if err != nil {
		return nil, err
	}
	if err := server.poll(ctx, `SELECT NOT pg_is_in_recovery()`); err != nil {
		server.Kill()
		return nil, fmt.Errorf("promote the standby: %w", err)
	}
	return server, nil
}

// poll asks the server until it says yes.
func (s *Server) poll(ctx context.Context, question string) error {
	return s.session(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return pause.Until(ctx, func() (yes bool, err error) {
			err = conn.QueryRow(ctx, question).Scan(&yes)
			return yes, err
		})
	})
}

// session runs fn with a connection of the superuser.
func (s *Server) session(ctx context.Context, fn func(context.Context, *pgx.Conn) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.URL())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	return fn(ctx, conn)
}

// backUp copies the data of a server that runs into dir, as the data of its standby. The programs of some packages lack pg_basebackup, so this is
// the low-level way of PostgreSQL's manual.
func (s *Server) backUp(ctx context.Context, dir string) error {
	who, err := owner()
	if err != nil {
		return err
	}
	if err := who.mkdir(dir); err != nil {
		return err
	}
	data := filepath.Join(dir, "data")
	var label string
	err = s.session(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		// The log since the start of the copy is still there when the standby asks for it.
		for _, text := range []string{`ALTER SYSTEM SET wal_keep_size = '1GB'`, `SELECT pg_reload_conf()`, `SELECT pg_backup_start('standby', true)`} {
			if _, err := conn.Exec(ctx, text); err != nil {
				return err
			}
		}
		if err := who.copyData(s.data(), data); err != nil {
			return err
		}
		return conn.QueryRow(ctx, `SELECT labelfile FROM pg_backup_stop(wait_for_archive => false)`).Scan(&label)
	})
	if err != nil {
		return err
	}
	const auto = "postgresql.auto.conf"
	settings, err := os.ReadFile(filepath.Join(data, auto))
	if err != nil {
		return err
	}
	settings = fmt.Appendf(settings, "primary_conninfo = 'host=127.0.0.1 port=%d user=postgres application_name=%s'\n", s.port, standbyName)
	for name, text := range map[string]string{"backup_label": label, "standby.signal": "", auto: string(settings)} {
		if err := who.writeFile(filepath.Join(data, name), []byte(text)); err != nil {
			return err
		}
	}
	return nil
}

// copyData copies the data of a server that may run, without what belongs to its process, and
// without its log, which a standby streams. Files may vanish meanwhile.
func (u user) copyData(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		copied := filepath.Join(to, name)
		parent := filepath.Dir(name)
		switch skipped := name == "postmaster.pid" || parent == "pg_wal" || parent == "pg_replslot"; {
		case skipped && d.IsDir():
			return fs.SkipDir
		case skipped:
			return nil
		case d.IsDir():
			if err := os.Mkdir(copied, 0o700); err != nil {
				return err
			}
			return u.own(copied)
		}
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return u.writeFile(copied, text)
	})
}

// writeFile writes a file that belongs to the user.
func (u user) writeFile(path string, text []byte) error {
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return err
	}
	return u.own(path)
}
