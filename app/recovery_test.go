package app_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/broker/nats/embedded"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/logbuf"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// A site is a NATS server, in a bubble, and a directory for databases. Each app on it is
// a process of its own, with its own connection.
type site struct {
	t      *testing.T
	dir    string
	server *embedded.Server
	client broker.Broker // of producers and consumers
	events <-chan *message.Message
	sent   int
	log    logbuf.Buffer // of all services
}

func onSite(t *testing.T, test func(t *testing.T, s *site)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &site{t: t, dir: t.TempDir()}
		var err error
		if s.server, err = embedded.Start(embedded.Options{StoreDir: filepath.Join(s.dir, "jetstream"), DontListen: true, SyncLazily: true}, quiet); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.server.Shutdown)
		s.client = s.connect()
		if s.events, err = s.client.Subscriber("consumer").Subscribe(t.Context(), s.client.Routing().EventsOf("*")); err != nil {
			t.Fatal(err)
		}
		test(t, s)
	})
}

// connect returns a broker on the server, which runs until the test ends.
func (s *site) connect() broker.Broker {
	s.t.Helper()
	b := nats.New(nats.Options{Server: s.server}, quiet)
	running(s.t, "broker", b.Run)
	if err := broker.AwaitReady(s.t.Context(), b); err != nil {
		s.t.Fatal(err)
	}
	return b
}

func (s *site) path(name string) string { return filepath.Join(s.dir, name) }

// open opens a database, or makes it.
func (s *site) open(name string) *sqlite.Store {
	s.t.Helper()
	db, err := sqlite.Open(s.t.Context(), s.path(name), sqlite.Options{Durability: sqlite.Relaxed})
	if err != nil {
		s.t.Fatal(err)
	}
	return db
}

// serve runs a service on a database, until it is stopped.
func (s *site) serve(name string, opt app.Options) (stop func()) {
	s.t.Helper()
	db := s.open(name)
	end := s.serveOn(db, opt)
	return func() {
		end()
		if err := db.Close(); err != nil {
			s.t.Error(err)
		}
	}
}

func (s *site) serveOn(db *sqlite.Store, opt app.Options) (stop func()) {
	s.t.Helper()
	a := s.app(db, opt)
	stop = running(s.t, "app", a.Run)
	<-a.Running()
	s.settle()
	return stop
}

// app returns a service, which connects by itself.
func (s *site) app(db app.Store, opt app.Options) *app.App {
	s.t.Helper()
	opt.RunBroker, opt.BrokerName, opt.DrainTimeout = true, "nats://here", time.Second
	a, err := app.New(db, nats.New(nats.Options{Server: s.server}, quiet), slog.New(slog.NewTextHandler(&s.log, nil)), opt)
	if err != nil {
		s.t.Fatal(err)
	}
	return a
}

// refused runs a service that ends by itself, and returns why.
func (s *site) refused(name string, opt app.Options) error {
	s.t.Helper()
	db := s.open(name)
	defer db.Close()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	return s.app(db, opt).Run(ctx)
}

// settle waits until commands that were sent are handled, and what is known of them is
// noted.
func (s *site) settle() { time.Sleep(3 * time.Second) } // of the bubble

// outlive lets time go by.
func (s *site) outlive(d time.Duration) { time.Sleep(d) }

// schedule publishes a command.
func (s *site) schedule(call string, due time.Time) { s.expiring(call, due, time.Time{}) }

// expiring publishes a command for a timer that expires at a time.
func (s *site) expiring(call string, due, expires time.Time) {
	s.t.Helper()
	id := s.next()
	version := timer.Version{TimestampMS: time.Now().UnixMilli(), CommandID: id}
	s.publish(id, envelope.Schedule(timer.ScheduleTimer{Key: keyOf(call), Version: version, DueAt: due, ExpiresAt: expires}))
}

func (s *site) cancel(call string) {
	s.t.Helper()
	id := s.next()
	s.publish(id, envelope.Cancel(timer.CancelTimer{Key: keyOf(call), Version: timer.Version{TimestampMS: time.Now().UnixMilli(), CommandID: id}}))
}

func (s *site) next() string {
	s.sent++
	return fmt.Sprint("command-", s.sent)
}

func (s *site) publish(id string, body []byte) {
	s.t.Helper()
	m := broker.Message{Topic: s.client.Routing().CommandsOf("acme"), Message: message.NewMessage(id, body)}
	if err := broker.Join(s.client.Publisher().Publish(s.t.Context(), m)); err != nil {
		s.t.Fatal(err)
	}
}

// fired returns the calls whose events come until a time, and which of them expired.
func (s *site) fired(until time.Time) (calls string) {
	s.t.Helper()
	for {
		select {
		case m := <-s.events:
			m.Ack()
			decoded, err := envelope.Decode(m.Payload)
			if err != nil {
				s.t.Fatal(err)
			}
			switch e := decoded.Payload.(type) {
			case timer.DueTimeReached:
				if time.Now().Before(e.DueAt) {
					s.t.Errorf("%s fired early", e.Key)
				}
				calls += " " + string(e.ServiceCallID)
			case timer.TimerExpired:
				calls += " " + string(e.ServiceCallID) + ":Expired"
			default:
				s.t.Errorf("published a %s", decoded.Type)
			}
		case <-time.After(time.Until(until)):
			return strings.TrimSpace(calls)
		}
	}
}

// states returns what a database holds of calls.
func (s *site) states(name string, calls ...string) (all string) {
	s.t.Helper()
	db := s.open(name)
	defer db.Close()
	for _, call := range calls {
		e, err := db.Get(s.t.Context(), keyOf(call))
		if err != nil && !errors.Is(err, timer.ErrNotFound) {
			s.t.Fatal(err)
		}
		all += fmt.Sprintf(" %s:%s", call, e.State)
	}
	return strings.TrimSpace(all)
}

// replace deletes a database, or puts a copy in its place.
func (s *site) replace(name, with string) {
	s.t.Helper()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(s.path(name) + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			s.t.Fatal(err)
		}
	}
	if with != "" {
		if err := os.Rename(s.path(with), s.path(name)); err != nil {
			s.t.Fatal(err)
		}
	}
}

// backUp copies a database.
func (s *site) backUp(name, to string) {
	s.t.Helper()
	if err := sqlite.Backup(s.t.Context(), s.path(name), s.path(to)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) recovered() bool {
	return strings.Contains(s.log.Take(), "was recovered from the broker")
}

// TestRecoversADatabaseThatWasDeleted has timers that have fired, have expired, are canceled,
// wait or were refused, deletes the database, and starts again.
func TestRecoversADatabaseThatWasDeleted(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.outlive(2 * time.Hour) // bubbles begin with the year 2000, before which nothing may be due
		stop := s.serve("timers.db", app.Options{})
		began := time.Now()
		s.schedule("fired", began.Add(time.Second))
		s.expiring("expired", began.Add(-time.Hour), began.Add(-time.Minute))
		s.expiring("away", began.Add(100*time.Second), began.Add(110*time.Second)) // due while no service runs
		s.schedule("later", began.Add(5*time.Minute))
		s.schedule("canceled", began.Add(5*time.Minute))
		s.cancel("canceled")
		s.cancel("tombstone")
		s.schedule("moved", began.Add(time.Second))
		time.Sleep(time.Millisecond)
		s.schedule("moved", began.Add(6*time.Minute))
		ahead := began.Add(25 * time.Hour).UnixMilli() // refused today, but not tomorrow
		s.publish("ahead", envelope.Schedule(timer.ScheduleTimer{Key: keyOf("refused"), Version: timer.Version{TimestampMS: ahead, CommandID: "ahead"}, DueAt: began.Add(5 * time.Minute)}))
		if got := s.fired(began.Add(time.Minute)); got != "expired:Expired fired" {
			t.Errorf("fired at first: %s", got)
		}
		s.schedule("fired", began.Add(5*time.Minute)) // too late: Reached is final
		s.settle()
		stop()
		s.outlive(130 * time.Second) // beyond the duplicate window of the stream

		s.replace("timers.db", "")
		calls := []string{"fired", "expired", "away", "later", "canceled", "tombstone", "moved", "refused"}
		stop = s.serve("timers.db", app.Options{})
		if !s.recovered() {
			t.Error("no recovery was logged")
		}
		if got := s.fired(began.Add(7 * time.Minute)); got != "away:Expired later moved" {
			t.Errorf("fired after the recovery: %s", got)
		}
		stop()
		if got, want := s.states("timers.db", calls...), "fired:Reached expired:Expired away:Expired later:Reached canceled:Canceled tombstone:Canceled moved:Reached refused:"; got != want {
			t.Errorf("states %s, want %s", got, want)
		}
	})
}

// TestRecoversAnOlderCopy puts a copy back that knows less: of commands, or only of
// what has fired.
func TestRecoversAnOlderCopy(t *testing.T) {
	for name, since := range map[string]func(s *site){
		"commands":     func(s *site) { s.schedule("new", time.Now().Add(5*time.Minute)); s.cancel("canceled") },
		"only firings": func(*site) {},
	} {
		t.Run(name, func(t *testing.T) {
			onSite(t, func(t *testing.T, s *site) {
				stop := s.serve("timers.db", app.Options{})
				began := time.Now()
				s.schedule("before", began.Add(time.Second))
				s.schedule("between", began.Add(time.Minute))
				s.schedule("canceled", began.Add(6*time.Minute))
				s.settle()
				s.backUp("timers.db", "copy.db")
				since(s)
				if got := s.fired(began.Add(2 * time.Minute)); got != "before between" {
					t.Errorf("fired at first: %s", got)
				}
				stop()
				s.replace("timers.db", "copy.db")
				s.log.Take()
				stop = s.serve("timers.db", app.Options{})
				if !s.recovered() {
					t.Error("no recovery was logged")
				}
				want := "canceled"
				if name == "commands" {
					want = "new"
				}
				if got := s.fired(began.Add(7 * time.Minute)); got != want {
					t.Errorf("fired after the recovery: %s, want %s", got, want)
				}
				stop()
			})
		})
	}
}

// TestGoesOnAfterAStop starts again and again, and recovers nothing.
func TestGoesOnAfterAStop(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		began := time.Now()
		for i := range 3 {
			stop := s.serve("timers.db", app.Options{})
			s.schedule(fmt.Sprint("call-", i), began.Add(5*time.Minute))
			s.schedule(fmt.Sprint("soon-", i), time.Now().Add(time.Second))
			if got := s.fired(time.Now().Add(10 * time.Second)); got != fmt.Sprint("soon-", i) {
				t.Errorf("fired: %s", got)
			}
			stop()
			if s.recovered() {
				t.Errorf("start %d: a recovery of a database that was not lost", i)
			}
		}
	})
}

// TestRecoversNothingThatIsAnothers has each case in which a database and a broker do
// not belong together, and what the service says.
func TestRecoversNothingThatIsAnothers(t *testing.T) {
	lost := func(s *site) { s.replace("timers.db", "") }
	refuses, starts := true, false
	tests := []struct {
		name     string
		first    bool // goes on running
		prepare  func(s *site)
		database string
		ask      bool
		refused  bool
		says     []string // parts of the error or the log
	}{
		{"the same database", false, func(*site) {}, "timers.db", false, starts, nil},
		{"deleted", false, lost, "timers.db", false, starts, []string{"it is empty, and the commands belonged to", "was recovered from the broker"}},
		{"deleted, and asked before", false, lost, "timers.db", true, refuses, []string{"the database is empty", "timers.db", "timer-service recover --dry-run"}},
		{"an empty one elsewhere", false, func(*site) {}, "another.db", false, starts, []string{"it is empty, and the commands belonged to", "timers.db", "was recovered from the broker"}},
		{"an empty one elsewhere while the first one runs", true, func(*site) {}, "another.db", false, refuses, []string{"timers.db", "another.db", "--takeover"}},
		{"one that is not empty", false, func(s *site) { s.fill("another.db") }, "another.db", false, refuses, []string{"timers.db", "another.db", "--takeover"}},
		{"a copy while the first one runs", true, func(s *site) { s.backUp("timers.db", "copy.db") }, "copy.db", false, refuses, []string{"timers.db", "is a copy", "copy.db", "--takeover"}},
		{"a copy of one that was lost", false, func(s *site) { s.backUp("timers.db", "copy.db"); lost(s) }, "copy.db", false, starts, nil},
		{"the broker was emptied", false, func(s *site) { s.emptyBroker() }, "timers.db", false, starts, []string{"the broker was emptied"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			onSite(t, func(t *testing.T, s *site) {
				stop := s.serve("timers.db", app.Options{})
				due := time.Now().Add(5 * time.Minute)
				s.schedule("call", due)
				s.settle()
				if tt.first {
					defer stop()
				} else {
					stop()
				}
				tt.prepare(s)
				s.log.Take()
				said := ""
				if tt.refused {
					err := s.refused(tt.database, app.Options{AskToRecover: tt.ask})
					if !errors.Is(err, timer.ErrFatal) {
						t.Fatalf("%v, want ErrFatal", err)
					}
					said = err.Error()
				} else {
					defer s.serve(tt.database, app.Options{})()
				}
				if !tt.refused || tt.first {
					if got := s.fired(due.Add(time.Minute)); got != "call" {
						t.Errorf("fired: %q", got)
					}
				}
				said += s.log.Take()
				for _, part := range tt.says {
					if !strings.Contains(said, part) {
						t.Errorf("%s\nwant %q", said, part)
					}
				}
				if tt.says == nil && said != "" && strings.Contains(said, "level=WARN") {
					t.Errorf("want nothing: %s", said)
				}
			})
		})
	}
}

// emptyBroker deletes all that the server keeps.
func (s *site) emptyBroker() {
	s.t.Helper()
	s.streams(func(js jetstream.JetStream, name string) error { return js.DeleteStream(s.t.Context(), name) })
	s.client = s.connect() // makes the stream again
	var err error
	if s.events, err = s.client.Subscriber("consumer").Subscribe(s.t.Context(), s.client.Routing().EventsOf("*")); err != nil {
		s.t.Fatal(err)
	}
	s.settle()
}

// TestRecover recovers on demand: first it only says what it would do.
func TestRecover(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		stop := s.serve("timers.db", app.Options{})
		s.schedule("fired", time.Now())
		s.schedule("later", time.Now().Add(5*time.Minute))
		if got := s.fired(time.Now().Add(time.Minute)); got != "fired" {
			t.Errorf("fired: %s", got)
		}
		stop()
		s.replace("timers.db", "")
		for _, dry := range []bool{true, true, false} {
			db := s.open("timers.db")
			got, err := s.app(db, app.Options{AskToRecover: true}).Recover(t.Context(), dry)
			if err != nil || got.Reason == "" || got.Commands != 2 || got.Timers != 2 || got.Events != 1 || got.Reached != 1 {
				t.Errorf("dry %t: %+v, %v", dry, got, err)
			}
			if noted, err := db.Noted(t.Context()); err != nil || noted.Empty != dry {
				t.Errorf("dry %t: %+v, %v", dry, noted, err)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		}
		if got, want := s.states("timers.db", "fired", "later"), "fired:Reached later:Scheduled"; got != want {
			t.Errorf("states %s, want %s", got, want)
		}
		stop = s.serve("timers.db", app.Options{AskToRecover: true})
		stop()
	})
}
