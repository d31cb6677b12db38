package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/event-service-agent/timer-service/internal/freeport"
	"github.com/event-service-agent/timer-service/verify/internal/postgresd"
)

// A replicatedDatabase is a database on a primary, from which a standby streams.
type replicatedDatabase struct {
	*postgresDatabase

	standby     *postgresd.Standby // nil after a failover, until another one is made
	spare       int                // port that the primary does not have
	synchronous bool               // commits are on the standby when they return
	root        string             // directory of the run
	made        int                // standbys
}

// replicate makes the standby of a database. If it is synchronous, the primary waits for it
// with each commit.
func replicate(ctx context.Context, primary *postgresDatabase, synchronous bool) (*replicatedDatabase, error) {
	d := &replicatedDatabase{postgresDatabase: primary, synchronous: synchronous, root: primary.dir}
	var err error
	if d.spare, err = freeport.Find(ctx); err == nil {
		err = d.addStandby(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// settingOf names both servers to an instance, which has to find the primary, and the instance
// to the servers.
func (d *replicatedDatabase) settingOf(instance int) string {
	return fmt.Sprintf("TIMER_DB_URL=postgres://%s@%s,%s/timers?sslmode=disable&target_session_attrs=read-write&application_name=%s%d",
		role, freeport.Address(d.port), freeport.Address(d.spare), application, instance)
}

// application is the name of an instance in sessions of the database, without its number.
const application = "instance-"

// addStandby makes a standby of the primary, which has all that the primary has.
func (d *replicatedDatabase) addStandby(ctx context.Context) (err error) {
	d.made++
	if d.standby, err = postgresd.StartStandby(ctx, d.server, d.standbyDir(), d.spare); err != nil || !d.synchronous {
		return err
	}
	for _, text := range []string{`ALTER SYSTEM SET synchronous_standby_names = '*'`, `SELECT pg_reload_conf()`} {
		if _, err := d.do(ctx, "postgres", text); err != nil {
			return err
		}
	}
	return nil
}

func (d *replicatedDatabase) standbyDir() string {
	return filepath.Join(d.root, fmt.Sprintf("standby-%d", d.made))
}

// failOver kills the primary, promotes the standby, which has all that was committed, and
// makes another one.
func (d *replicatedDatabase) failOver(ctx context.Context) error {
	d.server.Kill()
	promoted, err := d.standby.Promote(ctx)
	if err != nil {
		return err
	}
	if err := d.replace(promoted); err != nil {
		return err
	}
	return d.addStandby(ctx)
}

// failOverBefore kills the primary, and promotes the standby, which lacks a transaction. Then
// there is no standby.
func (d *replicatedDatabase) failOverBefore(ctx context.Context, xid int64) error {
	d.server.Kill()
	promoted, err := d.standby.PromoteBefore(ctx, xid)
	if err != nil {
		return err
	}
	return d.replace(promoted)
}

// replace makes a server the primary in place of the one that is dead.
func (d *replicatedDatabase) replace(promoted *postgresd.Server) error {
	gone := d.dir
	d.server, d.standby, d.dir = promoted, nil, d.standbyDir()
	d.port, d.spare = d.spare, d.port
	return os.RemoveAll(filepath.Join(gone, "postgres", "data"))
}

// A lastTransaction is the last one that scheduled timers.
type lastTransaction struct {
	xid      int64
	timers   int // that it scheduled
	instance int // that committed it
}

// pause has the standby replay nothing from now on, and the primary log which instance does what.
func (d *replicatedDatabase) pause(ctx context.Context) error {
	for _, text := range []string{
		`ALTER SYSTEM SET log_line_prefix = '%a %x '`, `ALTER SYSTEM SET log_min_duration_statement = 0`, `SELECT pg_reload_conf()`,
	} {
		if _, err := d.do(ctx, "postgres", text); err != nil {
			return err
		}
	}
	return errors.Join(d.standby.CatchUp(ctx), d.standby.Pause(ctx))
}

// last returns the last transaction, which the standby has received.
func (d *replicatedDatabase) last(ctx context.Context) (last lastTransaction, err error) {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	if err := d.standby.Receive(ctx); err != nil {
		return last, err
	}
	conn, err := pgx.Connect(ctx, fmt.Sprintf("postgres://postgres@%s/timers?sslmode=disable", freeport.Address(d.port)))
	if err != nil {
		return last, err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	err = conn.QueryRow(ctx, `SELECT xmin::text::bigint AS xid, count(*) FROM timer_schedules WHERE state = 'Scheduled' GROUP BY xid ORDER BY xid DESC LIMIT 1`).Scan(&last.xid, &last.timers)
	if err != nil {
		return last, err
	}
	log, err := os.ReadFile(d.server.LogPath())
	if err != nil {
		return last, err
	}
	lines := regexp.MustCompile(fmt.Sprintf(`(?m)^%s(\d+) %d `, application, last.xid))
	found := lines.FindSubmatch(log)
	if found == nil {
		return last, fmt.Errorf("the log of the primary does not say who committed %d", last.xid)
	}
	last.instance, err = strconv.Atoi(string(found[1]))
	return last, err
}

// close ends both servers.
func (d *replicatedDatabase) close() error {
	if d.standby != nil {
		d.standby.Kill()
	}
	return d.postgresDatabase.close()
}
