package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// newID returns an identifier as producers make them.
func newID() string { return uuid.Must(uuid.NewV7()).String() }

// tenant returns whose the timer with a number is.
func (o Options) tenant(n int) timer.TenantID {
	return timer.TenantID(fmt.Sprintf("tenant-%d", n%o.Tenants))
}

// command makes the command for the timer with a number.
func (o Options) command(n int, now, due time.Time) timer.ScheduleTimer {
	return timer.ScheduleTimer{
		Key: timer.Key{
			TenantID:      o.tenant(n),
			ServiceCallID: timer.ServiceCallID(newID()),
		},
		Version:       timer.Version{TimestampMS: now.UnixMilli(), CommandID: newID()},
		CorrelationID: newID(),
		DueAt:         due,
	}
}

func encode(c timer.ScheduleTimer) *message.Message {
	m := message.NewMessage(c.CommandID, envelope.Schedule(c))
	m.Metadata = envelope.ScheduleHeaders(c)
	return m
}

const (
	publishers   = 8   // that publish a batch at the same time
	publishBatch = 500 // commands
)

// publish publishes commands as fast as the broker takes them.
func (s *system) publish(ctx context.Context, commands []*message.Message) error {
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(publishers)
	topic := s.client.Routing().Subscription()
	for len(commands) > 0 && ctx.Err() == nil {
		n := min(publishBatch, len(commands))
		batch := commands[:n]
		all.Go(func() error { return s.client.Publisher().Publish(topic, batch...) })
		commands = commands[n:]
	}
	return all.Wait()
}

const (
	fillBatch = 2000
	fillFrom  = 24 * time.Hour      // from now until the first of the pending timers is due
	fillOver  = 30 * 24 * time.Hour // in which they are due
)

// fill puts the pending timers into the database, before the service runs.
func (s *system) fill(ctx context.Context) error {
	if s.opt.Pending <= 0 {
		return nil
	}
	store, err := sqlite.Open(ctx, s.config.DBPath, sqlite.Options{Durability: sqlite.Relaxed})
	if err != nil {
		return err
	}
	defer store.Close()
	restore, err := dropIndexes(ctx, store.DB())
	if err != nil {
		return fmt.Errorf("fill the database: %w", err)
	}
	now := time.Now()
	commands := make([]timer.ScheduleTimer, 0, fillBatch)
	for n := 0; n < s.opt.Pending; {
		commands = commands[:0]
		for len(commands) < fillBatch && n < s.opt.Pending {
			spread := time.Duration(int64(n) * 7919 % int64(fillOver/time.Second) * int64(time.Second)) // a prime: no order
			commands = append(commands, s.opt.command(n, now, now.Add(fillFrom+spread)))
			n++
		}
		if _, err := store.Schedule(ctx, now, commands...); err != nil {
			return fmt.Errorf("fill the database: %w", err)
		}
		if n%1_000_000 == 0 {
			fmt.Fprintf(s.opt.Progress, "%d of %d timers wait in the database\n", n, s.opt.Pending)
		}
	}
	fmt.Fprintln(s.opt.Progress, "indexing them")
	return restore()
}

// dropIndexes drops the indexes of the timers. Restore makes them again, which
// takes a fraction of what it takes to fill them in random order.
func dropIndexes(ctx context.Context, db *sql.DB) (restore func() error, err error) {
	rows, err := db.QueryContext(ctx, `SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'timer_schedules' AND sql IS NOT NULL`)
	if err != nil {
		return nil, err
	}
	indexes := make(map[string]string)
	for rows.Next() {
		var name, text string
		if err := rows.Scan(&name, &text); err != nil {
			return nil, errors.Join(err, rows.Close())
		}
		indexes[name] = text
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return nil, err
	}
	for name := range indexes {
		if _, err := db.ExecContext(ctx, "DROP INDEX "+name); err != nil {
			return nil, err
		}
	}
	return func() error {
		for name, text := range indexes {
			if _, err := db.ExecContext(ctx, text); err != nil {
				return fmt.Errorf("make the index %s: %w", name, err)
			}
		}
		return nil
	}, nil
}
