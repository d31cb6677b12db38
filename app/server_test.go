package app_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/broker/nats/embedded"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// A server is a bench with a NATS server, on which each app is a process of its own: it has
// its own connection.
type server struct {
	*bench
	nats       *embedded.Server
	disconnect func() // ends the connection of producers and consumers
}

// duplicates is longer than the stream remembers the ids of messages.
const duplicates = 130 * time.Second

func onServer(t *testing.T, test func(b *server)) {
	t.Helper()
	inBubble(t, func(b *bench) {
		b.rests = 3 * time.Second
		all := &server{bench: b}
		b.apart = func() broker.Broker { return nats.New(nats.Options{Server: all.nats}, quiet) }
		all.startServer()
		all.connect()
		test(all)
	})
}

// startServer starts the NATS server on its data.
func (b *server) startServer() {
	b.Helper()
	s, err := embedded.Start(embedded.Options{StoreDir: b.path("jetstream"), DontListen: true, SyncLazily: true}, quiet)
	must(b, err)
	b.Cleanup(s.Shutdown)
	b.nats = s
}

// connect connects producers and consumers to the server.
func (b *server) connect() {
	b.Helper()
	b.broker = b.apart()
	b.disconnect = running(b.T, "broker", b.broker.Run)
	must(b, broker.AwaitReady(b.Context(), b.broker))
	b.consume()
}

// open opens a database, or makes it.
func (b *server) open(name string) *sqlite.Store {
	b.Helper()
	db, err := sqlite.Open(b.Context(), b.path(name), sqlite.Options{Durability: sqlite.Relaxed})
	must(b, err)
	b.Cleanup(func() { _ = db.Close() }) // again, mostly
	return db
}

// service runs a service on a database, until it is stopped.
func (b *server) service(name string, opt app.Options) (a *app.App, stop func()) {
	b.Helper()
	db := b.open(name)
	a = b.app(db, opt)
	return a, b.closing(b.run(a), db)
}

// on runs a service on a database, until it is stopped.
func (b *server) on(name string, opt app.Options) (stop func()) {
	b.Helper()
	_, stop = b.service(name, opt)
	return stop
}

// closing returns a stop that closes the database, too.
func (b *server) closing(stop func(), db *sqlite.Store) func() {
	return func() {
		stop()
		must(b, db.Close())
	}
}

// until runs a service on a store, until it is stopped and its database is closed.
func (b *server) until(s app.Store, db *sqlite.Store, opt app.Options) (stop func()) {
	b.Helper()
	return b.closing(b.run(b.app(s, opt)), db)
}

// refused runs a service that ends by itself, and returns why.
func (b *server) refused(name string, opt app.Options) error {
	b.Helper()
	db := b.open(name)
	defer db.Close()
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	return b.app(db, opt).Run(ctx)
}

// states returns what a database holds of calls.
func (b *server) states(name string, calls ...string) (all string) {
	b.Helper()
	db := b.open(name)
	defer db.Close()
	for _, call := range calls {
		e, err := db.Get(b.Context(), keyOf(call))
		if err != nil && !errors.Is(err, timer.ErrNotFound) {
			b.Fatal(err)
		}
		all += fmt.Sprintf(" %s:%s", call, e.State)
	}
	return strings.TrimSpace(all)
}

// replace deletes the database of the service, or puts a copy in its place.
func (b *server) replace(with string) {
	b.Helper()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(b.path(mine) + suffix); !errors.Is(err, os.ErrNotExist) {
			must(b, err)
		}
	}
	if with != "" {
		must(b, os.Rename(b.path(with), b.path(mine)))
	}
	b.log.Take()
}

// mine is the database of the service.
const mine = "service.db"

// backUp copies the database of the service.
func (b *server) backUp(to string) {
	b.Helper()
	must(b, sqlite.Backup(b.Context(), b.path(mine), b.path(to)))
}

// recovers starts a service that has to recover its database, or not.
func (b *server) recovers(opt app.Options, wants bool) (stop func()) {
	b.Helper()
	b.log.Take()
	stop = b.on(mine, opt)
	b.wasRecovered(wants)
	return stop
}

func (b *server) wasRecovered(wants bool) {
	b.Helper()
	said := "recovered from the broker" // when it begins, too
	if wants {
		said = "was " + said
	}
	if text := b.log.Take(); strings.Contains(text, said) != wants {
		b.Errorf("a recovery was to be: %t, the log says\n%s", wants, text)
	}
}

// fires checks which events come within a time.
func (b *server) fires(within time.Duration, want string) {
	b.Helper()
	if got := b.fired(within); got != want {
		b.Errorf("fired %q, want %q", got, want)
	}
}

// streams calls fn with the name of each stream of the server.
func (b *server) streams(fn func(js jetstream.JetStream, name string) error) {
	b.Helper()
	conn, err := natsgo.Connect("", natsgo.InProcessServer(b.nats))
	must(b, err)
	defer conn.Close()
	js, err := jetstream.New(conn)
	must(b, err)
	for name := range js.StreamNames(b.Context()).Name() {
		must(b, fn(js, name))
	}
}
