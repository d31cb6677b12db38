package app_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/internal/fault"
	"github.com/event-service-agent/timer-service/internal/longtest"
	"github.com/event-service-agent/timer-service/timer"
)

// TestRecoversADatabaseThatWasDeleted has timers that have fired, have expired, are canceled,
// wait or were refused, deletes the database, and starts again.
func TestRecoversADatabaseThatWasDeleted(t *testing.T) {
	onServer(t, func(b *server) {
		stop := b.on(mine, app.Options{})
		began := time.Now()
		expiring := func(call string, due, expires time.Time) {
			b.send(timer.ScheduleTimer{Key: keyOf(call), DueAt: due, ExpiresAt: expires})
		}
		b.schedule("fired", began.Add(time.Second))
		expiring("expired", began.Add(-time.Hour), began.Add(-time.Minute))
		expiring("away", began.Add(100*time.Second), began.Add(110*time.Second)) // due while no service runs
		b.schedule("later", began.Add(5*time.Minute))
		b.schedule("canceled", began.Add(5*time.Minute))
		b.cancel("canceled")
		b.cancel("tombstone")
		b.schedule("moved", began.Add(time.Second))
		b.wait(time.Millisecond)
		b.schedule("moved", began.Add(6*time.Minute))
		b.send(timer.ScheduleTimer{ // refused today, but not tomorrow
			Key: keyOf("refused"), Version: timer.Version{TimestampMS: began.Add(25 * time.Hour).UnixMilli(), CommandID: "ahead"}, DueAt: began.Add(5 * time.Minute),
		})
		b.fires(time.Minute, "expired:Expired fired")
		b.schedule("fired", began.Add(5*time.Minute)) // too late: Reached is final
		b.rest()
		stop()
		b.wait(duplicates)

		b.replace("")
		stop = b.recovers(app.Options{}, true)
		b.fires(time.Until(began.Add(7*time.Minute)), "away:Expired later moved")
		stop()
		want := "fired:Reached expired:Expired away:Expired later:Reached canceled:Canceled tombstone:Canceled moved:Reached refused:"
		if got := b.states(mine, "fired", "expired", "away", "later", "canceled", "tombstone", "moved", "refused"); got != want {
			b.Errorf("states %s, want %s", got, want)
		}
	})
}

// TestRecoversAnOlderCopy puts back a copy that lacks commands, or only
// firings.
func TestRecoversAnOlderCopy(t *testing.T) {
	for name, newer := range map[string]bool{"commands": true, "only firings": false} {
		t.Run(name, func(t *testing.T) {
			onServer(t, func(b *server) {
				stop := b.on(mine, app.Options{})
				began := time.Now()
				b.schedule("before", began.Add(time.Second))
				b.schedule("between", began.Add(time.Minute))
				b.schedule("canceled", began.Add(6*time.Minute))
				b.rest()
				b.backUp("copy.db")
				want := "canceled"
				if newer {
					b.schedule("new", began.Add(5*time.Minute))
					b.cancel("canceled")
					want = "new"
				}
				b.fires(2*time.Minute, "before between")
				stop()
				b.replace("copy.db")
				stop = b.recovers(app.Options{}, true)
				b.fires(7*time.Minute, want)
				stop()
			})
		})
	}
}

// TestRecoversACopyWithEventsOnTheirWay puts a copy back that was made between the publish
// of an event and its removal from the outbox.
func TestRecoversACopyWithEventsOnTheirWay(t *testing.T) {
	onServer(t, func(b *server) {
		var fails atomic.Bool
		fails.Store(true)
		db := b.open(mine)
		stop := b.until(&fault.Store{Full: db, Decide: while(&fails, "delete")}, db, app.Options{})
		began := time.Now()
		b.schedule("fired", began.Add(time.Second))
		b.fires(10*time.Second, "fired")
		b.schedule("before", began.Add(5*time.Minute)) // notes that the event was seen
		b.rest()
		b.backUp("copy.db")
		b.schedule("since", began.Add(5*time.Minute+time.Second))
		b.rest()
		stop()
		b.wait(duplicates)
		b.replace("copy.db")
		stop = b.recovers(app.Options{}, true)
		b.fires(6*time.Minute, "before since")
		stop()
	})
}

// TestRecoversNothingThatIsAnothers has each case in which a database and a broker do
// not belong together, and the message of the service.
func TestRecoversNothingThatIsAnothers(t *testing.T) {
	nothing, lost := func(*server) {}, func(b *server) { b.replace("") }
	copied := func(b *server) { b.backUp("copy.db") }
	const refuses, starts, goesOn, ended, ask, auto = true, false, true, false, true, false
	for _, tt := range []struct {
		name     string
		first    bool // goes on running
		prepare  func(b *server)
		database string
		ask      bool
		refused  bool
		says     []string // parts of the error or the log
	}{
		{"the same database", ended, nothing, mine, auto, starts, nil},
		{"deleted", ended, lost, mine, auto, starts, []string{"is empty, and the commands belonged to", "was recovered from the broker"}},
		{"deleted, and asked before", ended, lost, mine, ask, refuses, []string{"the database is empty", mine, "timer-service recover --dry-run"}},
		{"an empty one elsewhere", ended, nothing, "another.db", auto, starts, []string{"is empty, and the commands belonged to", mine, "was recovered from the broker"}},
		{"an empty one elsewhere while the first one runs", goesOn, nothing, "another.db", auto, refuses, []string{mine, "another.db", "--takeover"}},
		{"one that is not empty", ended, func(b *server) {
			db := b.open("another.db")
			put(b, db, "acme", time.Now().Add(24*time.Hour), "own")
			must(b, db.Close())
		}, "another.db", auto, refuses, []string{mine, "another.db", "--takeover"}},
		{"a copy while the first one runs", goesOn, copied, "copy.db", auto, refuses, []string{mine, "is a copy", "copy.db", "--takeover"}},
		{"a copy of one that was lost", ended, func(b *server) { copied(b); lost(b) }, "copy.db", auto, starts, nil},
		{"the broker was emptied", ended, func(b *server) {
			b.disconnect()
			b.streams(func(js jetstream.JetStream, name string) error { return js.DeleteStream(b.Context(), name) })
			b.connect() // makes the stream again
			b.rest()
		}, mine, auto, starts, []string{"the broker was emptied"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onServer(t, func(b *server) {
				stop := b.on(mine, app.Options{})
				due := time.Now().Add(5 * time.Minute)
				b.schedule("call", due)
				b.rest()
				if tt.first {
					defer stop()
				} else {
					stop()
				}
				tt.prepare(b)
				b.log.Take()
				said := ""
				if tt.refused {
					err := b.refused(tt.database, app.Options{AskToRecover: tt.ask})
					if !errors.Is(err, timer.ErrFatal) {
						b.Fatalf("%v, want ErrFatal", err)
					}
					said = err.Error()
					if got := b.states(tt.database, "call"); tt.database != "copy.db" && got != "call:" {
						b.Errorf("it took commands: %s", got)
					}
				} else {
					defer b.on(tt.database, app.Options{})()
				}
				if !tt.refused || tt.first {
					b.fires(time.Until(due.Add(time.Minute)), "call")
				}
				said += b.log.Take()
				for _, part := range tt.says {
					if !strings.Contains(said, part) {
						b.Errorf("%s\nwant %q", said, part)
					}
				}
				if tt.says == nil && strings.Contains(said, "level=WARN") {
					b.Errorf("want nothing: %s", said)
				}
			})
		})
	}
}

// A sharedStore is one that other instances run on, or verify.
type sharedStore struct {
	app.Store
	timer.Recoverer
	other atomic.Bool
	err   error // of Alone, while other is true
}

func (s *sharedStore) Recovery() timer.Recoverer { return s }

func (s *sharedStore) Alone(ctx context.Context, fn func(context.Context) error) error {
	if s.other.Load() {
		return s.err
	}
	return s.Recoverer.Alone(ctx, fn)
}

// TestVerifiesWhenNoOtherDoes has an instance start on an older database while another one
// verifies that, and ends before it has recovered it.
func TestVerifiesWhenNoOtherDoes(t *testing.T) {
	onServer(t, func(b *server) {
		stop := b.on(mine, app.Options{})
		b.schedule("before", time.Now().Add(5*time.Minute))
		b.rest()
		b.backUp("copy.db")
		b.schedule("since", time.Now().Add(5*time.Minute))
		b.rest()
		stop()
		b.replace("copy.db")

		file := b.open(mine)
		db := &sharedStore{Store: file, Recoverer: file, err: errors.New("another instance verifies the database")}
		db.other.Store(true)
		a := b.app(db, app.Options{})
		b.run(a)
		b.wait(5 * time.Minute)
		if c := b.check(a, "owner"); !c.Red {
			b.Errorf("while another instance verifies the database: %+v", c)
		}
		db.other.Store(false)
		b.rest()
		b.wasRecovered(true)
	})
}

// TestGoesOnWithOthers has an instance start while another one runs, which has verified
// the database.
func TestGoesOnWithOthers(t *testing.T) {
	onServer(t, func(b *server) {
		stop := b.on(mine, app.Options{})
		b.schedule("good", time.Now().Add(time.Minute))
		b.rest()
		b.publish("acme", "not JSON", []byte("{")) // acked when it is a dead letter
		b.rest()
		stop()
		b.log.Take()
		file := b.open(mine)
		db := &sharedStore{Store: file, Recoverer: file}
		db.other.Store(true)
		stop = b.until(db, file, app.Options{})
		b.fires(2*time.Minute, "good")
		b.wasRecovered(false)
		stop()
	})
}

// TestAnInstanceThatLostItsShardGoesOn has an instance lose its shard, and with it its part in
// the lock of the database, which has the history that it had.
func TestAnInstanceThatLostItsShardGoesOn(t *testing.T) {
	onServer(t, func(b *server) {
		lost := make(chan struct{})
		db := &shardedStore{Store: b.store, free: make(chan struct{}), lost: lost}
		close(db.free)
		ctx, stop := context.WithCancel(b.Context())
		defer stop()
		a, ended := b.app(db, app.Options{}), make(chan error, 1)
		go func() { ended <- a.Run(ctx) }()
		<-a.Running()
		due := time.Now().Add(5 * time.Minute)
		b.schedule("call", due)
		b.rest()
		close(lost)
		b.fires(time.Until(due.Add(time.Minute)), "call")
		stop()
		if err := <-ended; err != nil {
			b.Errorf("ended with %v", err)
		}
		b.wasRecovered(false)
	})
}

// TestRecoveredTimersHaveTheTimesOfTheirCommands has commands come minutes apart, which are
// read again at once.
func TestRecoveredTimersHaveTheTimesOfTheirCommands(t *testing.T) {
	longtest.NotShort(t)
	onServer(t, func(b *server) {
		times := func() string {
			db := b.open(mine)
			defer db.Close()
			var all []time.Time
			for _, call := range []string{"first", "second", "canceled"} {
				e, err := db.Get(b.Context(), keyOf(call))
				must(b, err)
				all = append(all, cmp.Or(e.CanceledAt, e.RegisteredAt).Truncate(time.Minute))
			}
			return fmt.Sprint(all)
		}
		stop := b.on(mine, app.Options{})
		due := time.Now().Add(1000 * time.Hour)
		b.schedule("first", due)
		b.wait(time.Minute)
		b.schedule("second", due)
		b.wait(2 * time.Minute)
		b.cancel("canceled")
		b.rest()
		stop()
		want := times()
		b.replace("")
		b.recovers(app.Options{}, true)()
		if got := times(); got != want {
			b.Errorf("registered and canceled at %s, want %s", got, want)
		}
	})
}
