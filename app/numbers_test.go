package app_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/internal/fault"
	"github.com/event-service-agent/timer-service/internal/longtest"
	"github.com/event-service-agent/timer-service/timer"
)

// Logs are a broker's history that has no messages. It notes the numbers that are read.
type logs struct {
	broker.Broker
	all  atomic.Pointer[[]broker.Log]
	read map[string]string // from where to where, by name of a log of commands

	hanging atomic.Bool // a question has no answer
}

// Logs returns all, or hangs if there are none.
func (l *logs) Logs(ctx context.Context, _ string) ([]broker.Log, error) {
	if all := l.all.Load(); all != nil {
		return *all, nil
	}
	l.hanging.Store(true)
	<-ctx.Done()
	return nil, ctx.Err()
}

func (l *logs) History() (broker.History, string)                        { return l, "" }
func (l *logs) Used(context.Context, string) (bool, error)               { return false, nil }
func (l *logs) Place(string, string) (log string, number int64, ok bool) { return "", 0, false }
func (l *logs) Keep([]timer.Number)                                      {}
func (l *logs) Read(_ context.Context, kind broker.Kind, after, upTo map[string]int64, _ func([]broker.Stored) error) error {
	for log, last := range upTo {
		if kind == broker.Commands {
			l.read[log] = fmt.Sprint(after[log], "-", last)
		}
	}
	return nil
}

// topic returns the log of a partition of the commands.
func topic(name string, first, floor, last int64) broker.Log {
	return broker.Log{Name: name, Kind: broker.Commands, Floor: floor, Delivered: floor, First: first, Last: last}
}

// withLogs has the broker of all apps have other logs.
func (b *server) withLogs() *logs {
	l, own := &logs{read: make(map[string]string)}, b.apart
	b.apart = func() broker.Broker {
		l.Broker = own()
		return l
	}
	return l
}

// TestAStopAsksNoBrokerTwiceThatHangs stops an app while it writes numbers. The write is given up, and
// there is no last one, for which the stop would have no time.
func TestAStopAsksNoBrokerTwiceThatHangs(t *testing.T) {
	onServer(t, func(b *server) {
		l := b.withLogs()
		l.all.Store(&[]broker.Log{topic("commands/0@1", 1, 70, 70)})
		stop := b.run(b.app(b.store, app.Options{}))
		l.all.Store(nil)
		b.schedule("call", time.Now().Add(time.Hour))
		for !l.hanging.Load() {
			b.wait(100 * time.Millisecond)
		}
		l.hanging.Store(false)
		stop()
		if l.hanging.Load() {
			b.Error("asked again during the stop")
		}
	})
}

// TestWhereAStartBegins has a database that was used with some logs of commands start with
// others. It says which parts of them it reads, what it logs, and that the numbers are the floors
// of the logs then.
func TestWhereAStartBegins(t *testing.T) {
	const unused, empty, elsewhere = "unused", "empty", "elsewhere"
	one := []broker.Log{topic("commands/0@1", 1, 70, 70)}
	for name, tt := range map[string]struct {
		before []broker.Log // nil: the database was not used with a broker
		other  string       // what kind of database it is, if it was not
		logs   []broker.Log
		reads  map[string]string
		says   string // nothing, if it is empty
	}{
		"the same log":                     {one, "", []broker.Log{topic("commands/0@1", 1, 80, 90)}, map[string]string{"commands/0@1": "70-90"}, ""},
		"an empty database":                {nil, empty, []broker.Log{topic("commands/0@1", 5, 80, 90)}, map[string]string{"commands/0@1": "0-90"}, ""},
		"one that was used without it":     {nil, unused, []broker.Log{topic("commands/0@1", 1, 80, 90)}, map[string]string{"commands/0@1": "80-90"}, "has not been used with this broker before"},
		"one that was used with another":   {nil, elsewhere, []broker.Log{topic("commands/0@1", 1, 80, 90)}, map[string]string{"commands/0@1": "80-90"}, "or is another one"},
		"a partition that was added":       {one, "", []broker.Log{topic("commands/0@1", 1, 70, 70), topic("commands/1@1", 1, 0, 9)}, map[string]string{"commands/0@1": "70-70", "commands/1@1": "0-9"}, ""},
		"a topic that was made again":      {one, "", []broker.Log{topic("commands/0@2", 1, 30, 40)}, map[string]string{"commands/0@2": "0-40"}, "the broker was emptied"},
		"a log that has lost its end":      {one, "", []broker.Log{topic("commands/0@1", 1, 50, 50)}, map[string]string{"commands/0@1": "50-50"}, "the broker has lost messages that the database knows"},
		"a log that has lost its begin":    {one, "", []broker.Log{topic("commands/0@1", 81, 90, 90)}, map[string]string{"commands/0@1": "70-90"}, "messages=10"},
		"a log whose messages are too old": {one, "", []broker.Log{topic("commands/0@1", 71, 70, 70)}, map[string]string{"commands/0@1": "70-70"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			onServer(t, func(b *server) {
				l := b.withLogs()
				recover := func(all []broker.Log) *logs {
					l.all.Store(&all)
					clear(l.read)
					b.log.Take()
					b.recover(false)
					return l
				}
				if tt.before != nil {
					recover(tt.before)
				}
				if tt.other == unused || tt.other == elsewhere {
					db := b.open(mine)
					put(b, db, "acme", time.Now().Add(time.Hour), "own")
					if tt.other == elsewhere {
						must(b, db.Recovery().Advance(b.Context(), timer.Number{Broker: "another", Log: "commands/0@7", Kind: "commands", Number: 85}))
					}
					must(b, db.Close())
				}
				if recover(tt.logs); !maps.Equal(l.read, tt.reads) {
					b.Errorf("read %v, want %v", l.read, tt.reads)
				}
				said := b.log.Take()
				if unusual := strings.Contains(said, "level=WARN") || strings.Contains(said, "level=ERROR"); unusual != (tt.says != "") || !strings.Contains(said, tt.says) {
					b.Errorf("want %q: %s", tt.says, said)
				}
				for _, l := range tt.logs { // the broker delivers messages above its floor again
					if got, want := recover(tt.logs).read[l.Name], fmt.Sprint(l.Floor, "-", l.Last); got != want {
						b.Errorf("the next start reads %s of %s, want %s", got, l.Name, want)
					}
				}
			})
		})
	}
}

// TestALogThatLosesItsEndWhileTheServiceRuns has the number become that end, also without a start,
// and stay there while an event that was published waits in the outbox.
func TestALogThatLosesItsEndWhileTheServiceRuns(t *testing.T) {
	onServer(t, func(b *server) {
		l, fails := b.withLogs(), new(atomic.Bool)
		a := b.app(&fault.Store{Full: b.store, Decide: while(fails, "delete")}, app.Options{})
		for i, step := range []struct {
			last, commands, events int64
			waits                  bool // an event, in the outbox
		}{{70, 70, 70, false}, {50, 50, 50, true}, {60, 60, 50, true}, {60, 60, 60, false}} {
			l.all.Store(&[]broker.Log{topic("commands/0@1", 1, step.last, step.last), {Name: "events", Kind: broker.Events, First: 1, Floor: step.last, Last: step.last}})
			if fails.Store(step.waits); i == 0 {
				b.run(a)
			}
			b.schedule(fmt.Sprint("call-", i), time.Now())
			b.wait(10 * time.Second)
			known, err := b.store.Known(b.Context())
			must(b, err)
			for _, n := range known.Numbers {
				if want := map[timer.LogKind]int64{"commands": step.commands, "events": step.events}[n.Kind]; n.Number != want {
					b.Errorf("step %d: %+v, want %d", i, n, want)
				}
			}
			if said := strings.Count(b.log.Take(), "the broker has lost messages that the database knows"); said != map[bool]int{true: 2}[step.last == 50] || len(known.Numbers) != 2 {
				b.Errorf("step %d: said so %d times; %+v", i, said, known.Numbers)
			}
		}
	})
}

// purge removes all messages of the service's stream.
func (b *server) purge() {
	b.Helper()
	b.streams(func(js jetstream.JetStream, name string) error {
		s, err := js.Stream(b.Context(), name)
		if err != nil || name != "svc" {
			return err
		}
		return s.Purge(b.Context())
	})
}

// TestAGapIsSaidOnce has the stream lose messages that were read, which is no gap, and then ten
// commands before they were read, while the service is stopped.
func TestAGapIsSaidOnce(t *testing.T) {
	onServer(t, func(b *server) {
		due := time.Now().Add(3 * time.Minute)
		stop := b.on(mine, app.Options{})
		b.schedule("before", due)
		b.rest()
		stop()
		lost := func(messages string) {
			b.Helper()
			b.log.Take()
			a, stop := b.service(mine, app.Options{})
			b.wait(30 * time.Second)
			for _, c := range a.Checks(b.Context()) {
				if c.Red {
					b.Errorf("%+v", c)
				}
			}
			stop()
			if said := b.log.Take(); strings.Contains(said, "level=ERROR") != (messages != "") || !strings.Contains(said, messages) {
				b.Errorf("want %q: %s", messages, said)
			}
		}
		b.purge() // the messages are too old
		lost("")
		for i := range 10 {
			b.schedule(fmt.Sprint("lost-", i), due)
		}
		b.purge()
		lost("messages=10 ")
		lost("")
		b.on(mine, app.Options{})
		b.schedule("after", due)
		b.fires(4*time.Minute, "before after")
	})
}

// restart stops the server, calls then with the folder of its data, and starts it again.
func (b *server) restart(then func(data string)) {
	b.Helper()
	b.disconnect()
	b.nats.Shutdown()
	synctest.Wait()
	then(b.path("jetstream"))
	b.startServer()
	b.connect()
}

// TestANumberFromBeforeHidesNothing has a snapshot of the stream be put back, after which new
// commands have numbers that others had before. Then the database loses the last transaction.
func TestANumberFromBeforeHidesNothing(t *testing.T) {
	longtest.NotShort(t)
	onServer(t, func(b *server) {
		due := time.Now().Add(10 * time.Minute)
		stop := b.on(mine, app.Options{})
		b.schedule("first", due)
		b.rest()
		stop()
		b.restart(func(data string) { must(b, os.CopyFS(b.path("snapshot"), os.DirFS(data))) })
		stop = b.on(mine, app.Options{})
		for i := range 5 {
			b.schedule(fmt.Sprint("gone-", i), due.Add(time.Duration(i+1)*time.Millisecond))
		}
		b.rest()
		stop()
		b.restart(func(data string) {
			must(b, os.RemoveAll(data))
			must(b, os.CopyFS(data, os.DirFS(b.path("snapshot"))))
		})
		b.on(mine, app.Options{})()
		b.backUp("copy.db")
		stop = b.on(mine, app.Options{})
		b.schedule("new-1", due.Add(time.Second))
		b.schedule("new-2", due.Add(2*time.Second))
		b.rest()
		stop()
		b.wait(duplicates)
		b.replace("copy.db")
		stop = b.recovers(app.Options{}, true)
		b.fires(time.Until(due)+time.Minute, "first gone-0 gone-1 gone-2 gone-3 gone-4 new-1 new-2")
		stop()
	})
}
