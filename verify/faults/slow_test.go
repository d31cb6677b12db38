package faults_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/broker/nats/embedded"
	"github.com/event-service-agent/timer-service/internal/proxy"
	"github.com/event-service-agent/timer-service/store/sqlite"
)

const (
	manyCommands = 8000 // sent at once, to see how fast they are accepted
	someEvents   = 20   // of a second, published at the same time
	slowAck      = time.Second
)

// A split takes commands on one connection, and publishes on another one, which
// may be slow.
type split struct {
	*nats.Broker
	out *nats.Broker

	slowest atomic.Int64 // publish, in nanoseconds
}

func (s *split) Publisher() broker.Publisher { return s }

func (s *split) Publish(ctx context.Context, messages ...broker.Message) []error {
	defer s.measure(time.Now())
	return s.out.Publisher().Publish(ctx, messages...)
}

func (s *split) measure(began time.Time) {
	s.slowest.Store(max(s.slowest.Load(), int64(time.Since(began))))
}

// bench runs the app on two connections with a broker in this process, both
// through proxies, and returns how many commands a second it accepts while
// events are due all the time.
func bench(t *testing.T, harm func(intake, events *proxy.Proxy)) (perSecond float64, slowest time.Duration) {
	t.Helper()
	server, err := embedded.Start(embedded.Options{StoreDir: t.TempDir(), SyncLazily: true}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Shutdown()
	behind := func() (*nats.Broker, *proxy.Proxy) {
		p := proxy.New(proxy.TCP(address(t, server.URL())))
		at, err := p.Listen()
		if err != nil {
			t.Fatal(err)
		}
		return nats.New(nats.Options{URL: "nats://" + at}, quiet), p
	}
	in, intake := behind()
	defer intake.Close()
	out, events := behind()
	defer events.Close()
	both := &split{Broker: in, out: out}

	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "timers.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	counters := new(app.Counters)
	a, err := app.New(s, both, quiet, app.Options{Counters: counters})
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range []func(context.Context) error{in.Run, out.Run, a.Run} {
		defer keep(t, run)()
	}
	await(t, "a broker that is ready", time.Minute, func() bool { return in.Ready(t.Context()) == nil && out.Ready(t.Context()) == nil })

	harm(intake, events)
	began := time.Now()
	sendMany(t, server.URL(), began)
	sent := time.Now()
	await(t, "all commands accepted", 2*time.Minute, func() bool { return accepted(counters) >= manyCommands })
	took := time.Since(began)
	await(t, "some events", time.Minute, func() bool { return counters.Forwarded() >= someEvents })
	t.Logf("%d commands in %v (sent in %v), %d events, slowest publish %v",
		manyCommands, took.Round(time.Millisecond), sent.Sub(began).Round(time.Millisecond), counters.Forwarded(), time.Duration(both.slowest.Load()))
	return manyCommands / took.Seconds(), time.Duration(both.slowest.Load())
}

// sendMany sends commands. Most timers are due in an hour, some all the time.
func sendMany(t *testing.T, url string, now time.Time) {
	t.Helper()
	conn, err := natsgo.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(manyCommands))
	if err != nil {
		t.Fatal(err)
	}
	for i := range manyCommands {
		due := now.Add(time.Hour)
		if i%(manyCommands/200) == 0 {
			due = now.Add(time.Duration(i/(manyCommands/200)) * time.Second / someEvents)
		}
		if _, err := js.PublishAsync("timer.commands", scheduleTimer(fmt.Sprintf("sc-%d", i), now, due)); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-time.After(time.Minute):
		t.Fatal("the broker does not take the commands")
	}
}

// keep runs something until stop is called, which waits for its end. The end of
// the test does not stop it: what stands on a broker has to end before it.
func keep(t *testing.T, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// accepted returns how many commands were applied.
func accepted(c *app.Counters) (n int64) {
	for result, count := range c.Commands() {
		if result.Outcome != "failed" {
			n += count
		}
	}
	return n
}

// TestSlowAcksOfEventsLeaveTheIntakeAlone has the broker ack each event a second
// late, and later all that it sends and receives be half a second late.
func TestSlowAcksOfEventsLeaveTheIntakeAlone(t *testing.T) {
	t.Parallel()
	takesLong(t)
	plain, _ := bench(t, func(_, _ *proxy.Proxy) {})
	slow, slowest := bench(t, func(_, events *proxy.Proxy) { events.Delay(proxy.ToClient, slowAck) })
	all, _ := bench(t, func(intake, events *proxy.Proxy) {
		for _, p := range []*proxy.Proxy{intake, events} {
			p.Delay(proxy.ToClient, slowAck/2)
			p.Delay(proxy.ToServer, slowAck/2)
		}
	})
	t.Logf("commands accepted a second: %.0f undisturbed, %.0f with slow acks of events, %.0f with all slow", plain, slow, all)
	if slowest < slowAck {
		t.Errorf("the slowest publish took %v though acks are %v late: nothing is proven", slowest, slowAck)
	}
	if slow < plain/4 {
		t.Errorf("%.0f commands a second with slow acks of events, %.0f without", slow, plain)
	}
	if limit := min(600, plain/3); all < limit {
		t.Errorf("%.0f commands a second with all slow, want %.0f: as much as a round trip holds", all, limit)
	}
}
