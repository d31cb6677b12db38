package poison_test

import (
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	_ "github.com/event-service-agent/timer-service/service" // what the program is made of
	"github.com/event-service-agent/timer-service/verify/crash"
	"github.com/event-service-agent/timer-service/verify/internal/harness"
)

const stream = "svc"

func TestMain(m *testing.M) { harness.Main(m) }

// unlimited has all dead letters be whole, so that each is judged.
var unlimited = []string{"TIMER_DEAD_LETTER_BYTES=1TiB", "TIMER_DEAD_LETTER_TOTAL_BYTES=1TiB"}

// A world is a broker and the service, which is a process of its own.
type world struct {
	*testing.T
	address string // of the broker
	subject string // of commands
	js      jetstream.JetStream
	service *crash.Process
}

// begin starts a broker and the service with these settings. Senders may
// publish to a subject.
func begin(t *testing.T, subject string, settings ...string) *world {
	t.Helper()
	w := &world{T: t, subject: subject}
	w.startBroker()
	nc, err := nats.Connect(w.url("judge", "secret"), nats.MaxReconnects(-1))
	harness.Must(t, err)
	t.Cleanup(nc.Close)
	w.js, err = jetstream.New(nc)
	harness.Must(t, err)
	w.startService(slices.Concat(unlimited, []string{"TIMER_BROKER=nats", "TIMER_BROKER_URL=" + w.url("service", "secret")}, settings))
	return w
}

func (w *world) url(user, password string) string {
	return (&url.URL{Scheme: "nats", Host: w.address, User: url.UserPassword(user, password)}).String()
}

// startBroker starts a broker that allows producers to publish only commands.
// Messages may be larger than by default.
func (w *world) startBroker() {
	w.Helper()
	sender := &natsserver.Permissions{
		Publish:   &natsserver.SubjectPermission{Allow: []string{w.subject}},
		Subscribe: &natsserver.SubjectPermission{Allow: []string{"_INBOX.>"}},
	}
	w.start(&natsserver.Options{
		Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, NoSigs: true, NoLog: true,
		MaxPayload: 8 << 20, PingInterval: time.Hour, JetStream: true, StoreDir: w.TempDir(), JetStreamMaxStore: 1 << 40,
		Users: []*natsserver.User{
			{Username: "service", Password: "secret"},
			{Username: "judge", Password: "secret"},
			{Username: "producer", Password: "producer", Permissions: sender},
			{Username: "attacker", Password: "attacker", Permissions: sender},
		},
	})
}

// start starts a broker.
func (w *world) start(opt *natsserver.Options) {
	w.Helper()
	broker, err := natsserver.NewServer(opt)
	harness.Must(w, err)
	go broker.Start()
	w.Cleanup(func() {
		broker.Shutdown()
		broker.WaitForShutdown()
	})
	if !broker.ReadyForConnections(30 * time.Second) {
		w.Fatal("the broker does not listen")
	}
	w.address = broker.Addr().String()
}

func (w *world) startService(settings []string) {
	w.Helper()
	w.service = harness.Serve(w, w.TempDir(), append(settings, "TIMER_UNKNOWN_TYPES=ignore")...)
}

// stop ends the service as an operator does. It must be the process that was started.
func (w *world) stop() {
	w.Helper()
	if w.service.HasEnded() {
		w.Errorf("the service ended by itself: %v", w.service.Err)
	} else if err := w.service.Stop(30 * time.Second); err != nil {
		w.Errorf("the service ended with %v", err)
	}
}

// watchDisk writes to the disk now and then. The function that it returns says how long the
// slowest write took, and how late it began: a machine that is busy is late by itself.
func (w *world) watchDisk() (worst func() time.Duration) {
	w.Helper()
	file, err := os.Create(filepath.Join(w.TempDir(), "yardstick"))
	harness.Must(w, err)
	stop, result := make(chan struct{}), make(chan time.Duration)
	go func() {
		defer file.Close()
		const pause = 20 * time.Millisecond
		for slowest := time.Duration(0); ; {
			began := time.Now()
			select {
			case <-stop:
				result <- slowest
				return
			case <-time.After(pause):
			}
			if _, err := file.WriteAt(make([]byte, 4096), 0); err == nil {
				_ = file.Sync()
			}
			slowest = max(slowest, time.Since(began)-pause)
		}
	}()
	return func() time.Duration {
		close(stop)
		return <-result
	}
}
