package faults_test

import (
	"context"
	"math/rand/v2"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/internal/proxy"
	"github.com/event-service-agent/timer-service/verify/crash"
	"github.com/event-service-agent/timer-service/verify/crash/history"
	"github.com/event-service-agent/timer-service/verify/crash/traffic"
	"github.com/event-service-agent/timer-service/verify/internal/harness"
)

const (
	rate    = 50 // commands a second
	tenants = 8
)

// A world is a broker, the service, which reaches the broker through a proxy,
// and clients, which reach it without.
type world struct {
	*testing.T
	proxy    *proxy.Proxy
	service  *service
	stream   jetstream.Stream // of the service
	recorder history.Recorder

	stopProducing func() // returns when all that was sent has arrived, or was given up
}

// open makes a world with a broker of its own, in which commands are sent and
// the service acks some.
func open(t *testing.T, environ ...string) *world {
	t.Helper()
	b := harness.StartBroker(t, crash.NATS)
	w := &world{T: t}
	var at string
	w.proxy, at = proxied(t, b.URL())
	w.service = serve(t, append([]string{"TIMER_BROKER_URL=" + at}, environ...)...)
	w.begin(b.URL(), "")
	return w
}

// openEmbedded is open with a broker within the service.
func openEmbedded(t *testing.T, dir string) *world {
	t.Helper()
	port := harness.Port(t)
	w := &world{T: t, service: serve(t, inFile(dir), "TIMER_NATS_PORT="+strconv.Itoa(port))}
	w.begin(crash.NATS.URL(port), database(dir))
	return w
}

// proxied returns a proxy of a server, by its URL, and the URL of the proxy.
func proxied(t *testing.T, of string) (*proxy.Proxy, string) {
	t.Helper()
	u, err := url.Parse(of)
	harness.Must(t, err)
	p := proxy.New(proxy.TCP(u.Host))
	u.Host, err = p.Listen()
	harness.Must(t, err)
	t.Cleanup(func() { p.Close() })
	return p, u.String()
}

// begin has clients watch and send commands, and waits until the service has
// acked some.
func (w *world) begin(url, db string) {
	w.Helper()
	conn, err := crash.Connect(url, "faults", db)
	harness.Must(w, err)
	w.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	harness.Must(w, err)
	w.stream, err = js.Stream(w.Context(), "svc")
	harness.Must(w, err)
	stop, err := crash.Observe(w.Context(), conn, w.stream, &w.recorder)
	harness.Must(w, err)
	w.Cleanup(stop)
	seed := rand.Uint64()
	w.Logf("seed %d", seed)
	enough, produced := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(produced)
		crash.Produce(context.WithoutCancel(w.Context()), js, traffic.New(seed, tenants), rate, &w.recorder, enough)
	}()
	w.stopProducing = sync.OnceFunc(func() {
		close(enough)
		<-produced
	})
	w.Cleanup(w.stopProducing)
	w.goesOn(100)
}

// goesOn waits until the service has acked commands that are sent from now on.
func (w *world) goesOn(commands int) {
	w.Helper()
	began := time.Now()
	harness.Until(w.T, "acks of new commands", time.Minute, func() bool {
		return w.acked(func(sent, _ time.Time) bool { return sent.After(began) }) >= commands
	})
}

// acked counts the valid commands that the service acked, by when they were sent and when they
// were acked. Others are acked without reading the database.
func (w *world) acked(counts func(sent, acked time.Time) bool) (n int) {
	h := w.recorder.History()
	for _, s := range h.Sent {
		at, ok := h.Accepted[s.Seq]
		if ok && s.Acked && (s.Kind == history.Schedule || s.Kind == history.Cancel) && counts(s.SentAt, at) {
			n++
		}
	}
	return n
}

// nothingAcked fails the test if the service acked, before a given time, a command
// that was sent after another one: between the two there was nowhere to put it.
func (w *world) nothingAcked(from, to time.Time) {
	w.Helper()
	if n := w.acked(func(sent, acked time.Time) bool { return sent.After(from) && acked.Before(to) }); n > 0 {
		w.Errorf("%d commands were acked that could not be stored", n)
	}
	if w.sentSince(from) == 0 {
		w.Error("no command was sent meanwhile: nothing is proven")
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

// settle ends production, waits until the service came to rest, and judges all
// that was seen.
func (w *world) settle(within time.Duration) history.Verdict {
	w.Helper()
	w.stopProducing()
	var last time.Time
	for _, s := range w.recorder.History().Sent {
		if s.DueAt.After(last) {
			last = s.DueAt
		}
	}
	ctx, cancel := context.WithTimeout(w.Context(), within)
	defer cancel()
	var left int
	var failed error
	if err := pause.Until(ctx, func() (bool, error) {
		if left, failed = crash.Waiting(ctx, w.stream, history.CommandsTopic); failed != nil || left > 0 || time.Now().Before(last.Add(time.Second)) {
			return false, nil
		}
		v := history.Check(w.recorder.History())
		return v.Count(history.Lost) == 0 && v.Count(history.NoDeadLetter) == 0, nil
	}); err != nil {
		w.Errorf("after %v the service is not at rest: %d commands wait, %v", within, left, failed)
	}
	v := history.Check(w.recorder.History())
	w.Logf("%d sent, %d accepted, %d timers, %d fired, %d canceled, %d published again, %d of %d poison messages dead-lettered; late up to %v",
		v.Sent, v.Accepted, v.Timers, v.Fired, v.Canceled, v.Republished, v.DeadLettered, v.Poison, v.Overall)
	if v.Fired == 0 || v.Accepted == 0 {
		w.Error("nothing fired: nothing is proven")
	}
	v.Excuse(history.Duplicate, history.Repeated) // at least once: the fault explains them
	for _, f := range v.Findings {
		if f.Count > 0 && !f.Excused {
			w.Errorf("%d %s, such as: %s", f.Count, f.Rule, f.Example)
		}
	}
	if w.service.HasEnded() {
		w.Error("the service has ended")
	}
	return v
}
