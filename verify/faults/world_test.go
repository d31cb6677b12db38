package faults_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker/nats/embedded"
	"github.com/event-service-agent/timer-service/internal/proxy"
	"github.com/event-service-agent/timer-service/verify/crash"
	"github.com/event-service-agent/timer-service/verify/crash/history"
)

var quiet = slog.New(slog.DiscardHandler)

// A world is a broker, the service, which reaches the broker through a proxy,
// and clients, which reach it without.
type world struct {
	*testing.T
	seed     uint64
	dir      string
	proxy    *proxy.Proxy
	environ  []string // of the service
	service  *process
	conn     *natsgo.Conn
	js       jetstream.JetStream
	stream   jetstream.Stream // of the service
	recorder history.Recorder

	stopProducing func() // returns when all that was sent has arrived, or was given up
}

// newWorld makes a world without its service.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, seed: rand.Uint64(), dir: t.TempDir()}
	t.Logf("seed %d", w.seed)
	return w
}

// open makes a world with a broker of its own, in which commands are sent and
// the service acks some.
func open(t *testing.T, environ ...string) *world {
	t.Helper()
	w := newWorld(t)
	broker, err := embedded.Start(embedded.Options{StoreDir: t.TempDir(), SyncLazily: true}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Shutdown)
	p := proxy.New(proxy.TCP(address(t, broker.URL())))
	at, err := p.Listen()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	w.proxy = p
	w.environ = append([]string{"TIMER_DB_PATH=" + database(w.dir), "TIMER_BROKER_URL=nats://" + at}, environ...)
	w.serve()
	w.connect(broker.URL())
	w.begin()
	return w
}

// address returns the host and port of a URL.
func address(t testing.TB, rawURL string) string {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// serve starts the service, and waits until it takes commands. It returns the
// address of the broker. Two spaces follow the word ready on that line, and one where the
// log says that a part is ready again.
func (w *world) serve() string {
	w.Helper()
	began := time.Now()
	w.service = start(w.T, "service", w.environ...)
	said := w.service.says("ready  ", began, time.Minute)
	return strings.TrimSpace(strings.TrimPrefix(said.text, "ready"))
}

// connect connects the clients with the broker.
func (w *world) connect(url string) {
	w.Helper()
	var err error
	w.conn, err = natsgo.Connect(url, natsgo.MaxReconnects(-1), natsgo.ReconnectWait(100*time.Millisecond),
		natsgo.ErrorHandler(func(*natsgo.Conn, *natsgo.Subscription, error) {})) // what matters comes again
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(w.conn.Close)
	if w.js, err = jetstream.New(w.conn); err != nil {
		w.Fatal(err)
	}
}

// begin has clients watch and send commands, and waits until the service has
// acked some.
func (w *world) begin() {
	w.Helper()
	w.observe()
	w.produce()
	w.goesOn(100)
}

// goesOn waits until the service has acked commands that are sent from now on.
func (w *world) goesOn(commands int) {
	w.Helper()
	began := time.Now()
	await(w.T, "acks of new commands", time.Minute, func() bool { return w.ackedSince(began) >= commands })
}

// ackedSince returns how many valid commands that were sent after a time the
// service has acked.
func (w *world) ackedSince(from time.Time) (n int) {
	w.eachAcked(func(s history.Sent, _ time.Time) {
		if s.SentAt.After(from) {
			n++
		}
	})
	return n
}

// ackedBetween returns how many valid commands the service acked between two
// moments.
func (w *world) ackedBetween(from, to time.Time) (n int) {
	w.eachAcked(func(_ history.Sent, at time.Time) {
		if at.After(from) && at.Before(to) {
			n++
		}
	})
	return n
}

// eachAcked calls do with each valid command and when the service acked it.
// Others are acked without reading the database.
func (w *world) eachAcked(do func(history.Sent, time.Time)) {
	h := w.recorder.History()
	for _, s := range h.Sent {
		if at, ok := h.Accepted[s.Seq]; ok && s.Acked && (s.Kind == history.Schedule || s.Kind == history.Cancel) {
			do(s, at)
		}
	}
}

// settle ends production, waits until the service came to rest, and judges all
// that was seen.
func (w *world) settle(within time.Duration) {
	w.Helper()
	w.stopProducing()
	var last time.Time
	for _, s := range w.recorder.History().Sent {
		if s.DueAt.After(last) {
			last = s.DueAt
		}
	}
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	began, late := time.Now(), time.After(within)
	var left int
	var err error
	for done := false; !done; {
		select {
		case <-tick.C:
		case <-late:
			w.Errorf("after %v the service is not at rest: %d commands wait, %v", within, left, err)
			done = true
		}
		ctx, cancel := context.WithTimeout(w.Context(), 5*time.Second)
		left, err = crash.Waiting(ctx, w.stream)
		cancel()
		if err != nil || left > 0 || time.Now().Before(last.Add(time.Second)) {
			continue
		}
		v := history.Check(w.recorder.History())
		done = done || v.Count(history.Lost) == 0 && v.Count(history.NoDeadLetter) == 0
	}
	v := history.Check(w.recorder.History())
	w.Logf("at rest %v after the last command: %d sent, %d accepted, %d timers, %d fired, %d canceled, %d published again, %d of %d poison messages dead-lettered; late up to %v",
		time.Since(began).Round(100*time.Millisecond), v.Sent, v.Accepted, v.Timers, v.Fired, v.Canceled, v.Republished, v.DeadLettered, v.Poison, v.Overall)
	if v.Fired == 0 || v.Accepted == 0 {
		w.Error("nothing fired: nothing is proven")
	}
	v.Excuse(history.Duplicate) // at least once: the fault explains them
	v.Excuse(history.Repeated)
	for _, f := range v.Findings {
		if f.Count > 0 && !f.Excused {
			w.Errorf("%d %s, such as: %s", f.Count, f.Rule, f.Example)
		}
	}
	if w.service != nil && !w.service.alive() {
		w.Error("the service has ended")
	}
}

// sentSince returns how many commands that were sent after a time the broker
// has.
func (w *world) sentSince(from time.Time) (n int) {
	for _, s := range w.recorder.History().Sent {
		if s.Acked && s.SentAt.After(from) {
			n++
		}
	}
	return n
}
