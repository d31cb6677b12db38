package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/timer"
)

// Times of an [owner].
const (
	ownInterval = 5 * time.Second        // between two claims
	ownRetry    = time.Second            // after a claim that failed
	connecting  = 100 * time.Millisecond // after a claim that failed since there is no connection
	sessionEnds = 15 * time.Second       // how long a server may take to notice a dead process
	leaseEnds   = 5 * time.Second        // how long PostgreSQL may take to end the lease of a dead instance
)

// An owner makes sure that only one database takes the commands, and that all its
// instances use one broker. With two databases one might get a timer and the other its
// cancellation; with two brokers an event might go to one and its consumer read from the
// other. A database that replaces a lost one, or that is older than the broker knows, is
// recovered first.
//
//	                  no one yet, or this one        another one
//	Claim at the broker ──────────► Attach in the database ──► fatal
//	      ▲                             │ the same broker
//	      │                          recovery, at the start
//	      └────── every 5 s ────────────┴──► owned: commands are taken, timers fire
type owner struct {
	store    Store
	broker   broker.Broker
	recovery *recovery
	log      *slog.Logger
	role     string
	at       string // the broker, for people
	takeover bool   // at the next claim

	me      broker.Owner
	owned   chan struct{} // closed when this database owns the commands, or the broker can't tell
	waiting chan struct{} // closed when that is not known at once
	wait    func()        // closes waiting: the start of a host goes on
}

func newOwner(s Store, b broker.Broker, r *recovery, log *slog.Logger, opt Options) *owner {
	o := &owner{
		store: s, broker: b, recovery: r, log: log, role: opt.Role, at: opt.BrokerName, takeover: opt.Takeover,
		owned: make(chan struct{}), waiting: make(chan struct{}),
	}
	o.wait = sync.OnceFunc(func() { close(o.waiting) })
	return o
}

// is reports whether this database owns the commands, or has owned them.
func (o *owner) is() bool { return closed(o.owned) }

// errTaken says that another process takes the commands, or uses the database with another
// broker. It may have died a moment ago.
var errTaken = errors.New("another process is at work")

// run claims the commands, however long that takes, and repeats the claim until ctx is
// done. It returns an error that wraps [timer.ErrFatal] if the commands belong to another
// database, or if this database belongs to another broker.
func (o *owner) run(ctx context.Context) error {
	logged := ""
	for {
		err, wait := o.claim(ctx), ownInterval
		if err == nil && !o.is() {
			if _, err = o.recovery.run(ctx, o.me.Broker, o.wait); err == nil {
				err = o.stillOurs(ctx)
			}
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errors.ErrUnsupported):
			o.own()
			<-ctx.Done()
			return nil
		case err == nil:
			o.own()
		case errors.Is(err, timer.ErrFatal):
			return err
		default:
			o.wait()
			wait = ownRetry
			if errors.Is(err, broker.ErrUnavailable) {
				wait = connecting // the connection logs the reason
			} else if text := err.Error(); text != logged {
				o.log.WarnContext(ctx, "can't tell which database owns the commands, and whether it is complete, will retry", "error", err)
				logged = text
			}
		}
		if !pause.For(ctx, wait) {
			return nil
		}
	}
}

// own lets the other parts begin.
func (o *owner) own() {
	o.takeover = false
	if !o.is() {
		close(o.owned)
	}
}

// claim returns nil if this database owns the commands, and uses this broker. Before the
// database owns them it waits for a process that may have died.
func (o *owner) claim(ctx context.Context) error {
	for began := time.Now(); ; {
		err := o.claimNow(ctx)
		if !errors.Is(err, errTaken) || o.is() || time.Since(began) > sessionEnds || !pause.For(ctx, ownRetry) {
			return err
		}
	}
}

func (o *owner) claimNow(ctx context.Context) (err error) {
	if o.me.Database == "" {
		me := broker.Owner{Broker: rand.Text()[:8]}
		if me.Database, me.Name, err = o.store.Identity(ctx); err != nil {
			return err
		}
		me.Name = strings.ToValidUTF8(me.Name, "?")
		o.me = me
	}
	it, err := o.broker.Claim(ctx, o.role, o.me, o.takeover)
	if err != nil {
		return err
	}
	if it.Database != o.me.Database {
		if err := o.replace(ctx, it); err != nil {
			return err
		}
		it, err = o.broker.Claim(ctx, o.role, o.me, true)
	} else if it.Name != o.me.Name && o.store.Shared() == nil && !o.is() && !o.takeover {
		err = o.copied(ctx, it)
	}
	if err != nil {
		return err
	}
	o.me.Broker = it.Broker
	shared := o.store.Shared()
	if shared == nil {
		return nil
	}
	other, err := shared.Attach(ctx, it.Broker, o.at, o.takeover)
	if err == nil && other != "" {
		return fmt.Errorf("%w: %w: other instances of %s use %s, this one uses %s: give all the same broker, or start this one with --takeover (app.Options.Takeover)",
			timer.ErrFatal, errTaken, o.me.Name, other, o.at)
	}
	return err
}

// stillOurs returns an error if another database has claimed the commands during the recovery.
// Until this one takes commands, another empty one finds nobody at work, as this one did: of two
// that start at once the first to claim the commands must not take any.
func (o *owner) stillOurs(ctx context.Context) error {
	it, err := o.broker.Claim(ctx, o.role, o.me, false)
	if err != nil || it.Database == o.me.Database {
		return err
	}
	return fmt.Errorf("%w: %w: %s (id %s) has claimed %s on %s at the same time as %s (id %s): start one of them, the other one has nothing",
		timer.ErrFatal, errTaken, it.Name, it.Database, o.commands(), o.at, o.me.Name, o.me.Database)
}

// replace returns nil if this database may replace another one: it is empty, and the other
// one was lost, since no process takes the commands any more.
func (o *owner) replace(ctx context.Context, it broker.Owner) error {
	r, used, empty := o.recovery, false, false
	if r.history != nil && !o.is() { // if this one was the owner, the other one has taken over
		known, err := r.db.Known(ctx)
		if err != nil {
			return err
		}
		if used, err = r.history.Used(ctx, o.role); err != nil {
			return err
		}
		empty = known.Empty
	}
	switch {
	case empty && !used && r.ask:
		return fmt.Errorf("%w: the database is empty, and the commands belong to %s: %w", timer.ErrFatal, it.Name, errAsk)
	case empty && !used:
		o.log.WarnContext(ctx, "the database is empty, and the commands belonged to another one, which it replaces", "other", it.Name, "other_id", it.Database)
		return nil
	case it.Name == o.me.Name && !empty:
		reason, cure := r.lacks, "restore that database"
		if reason == "" {
			reason, cure = "it is not empty", "restore that database, start with an empty one"
		}
		return fmt.Errorf("%w: %s on %s belong to another database that was at the same place: %s, with the id %s; this one has the id %s, and %s: %s, or start with --takeover (app.Options.Takeover)",
			timer.ErrFatal, o.commands(), o.at, it.Name, it.Database, o.me.Database, reason, cure)
	}
	err := fmt.Errorf("%w: %s on %s belongs to %s (id %s), this is %s (id %s): stop that service, or start this one with --takeover (app.Options.Takeover)",
		timer.ErrFatal, o.commands(), o.at, it.Name, it.Database, o.me.Name, o.me.Database)
	if empty {
		err = errors.Join(err, errTaken)
	}
	return err
}

// copied returns an error if another process takes the commands already, on the database of
// which this one is a copy. A process on the same file is kept out by the lock of the file.
func (o *owner) copied(ctx context.Context, it broker.Owner) error {
	if o.recovery.history == nil {
		return nil
	}
	if used, err := o.recovery.history.Used(ctx, o.role); err != nil || !used {
		return err
	}
	return fmt.Errorf("%w: %w: %s on %s, with the database %s, of which this database, %s (id %s), is a copy: stop that process, or start this one with --takeover (app.Options.Takeover)",
		timer.ErrFatal, errTaken, o.commands(), o.at, it.Name, o.me.Name, o.me.Database)
}

// ignore returns err, or nil if err wraps the other error.
func ignore(err, without error) error {
	if errors.Is(err, without) {
		return nil
	}
	return err
}

// commands returns the topic of the commands that are owned.
func (o *owner) commands() string { return o.broker.Routing().Commands }

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
