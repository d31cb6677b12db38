package main

import (
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/broker/nats/embedded"
	"github.com/event-service-agent/timer-service/internal/proxy"
)

// TestServeSaysHowLateEventsWere takes the broker away between the fire of a timer
// and the ack of its event.
func TestServeSaysHowLateEventsWere(t *testing.T) {
	t.Parallel()
	const outage = 2 * time.Second
	server, err := embedded.Start(embedded.Options{StoreDir: t.TempDir()}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Shutdown()
	at, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	between := proxy.New(proxy.TCP(at.Host))
	defer between.Close()
	address, err := between.Listen()
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, "main", "serve", "--broker-url", "nats://"+address)
	p.prints(t, "ready")
	var due time.Time
	for accepted, n := false, 1; !accepted; n++ { // in time, else another one
		due = time.Now().Add(3 * time.Second)
		call := fmt.Sprint("order-", n)
		do(t, nil, "schedule", "acme", call, "--at", due.UTC().Format(time.RFC3339Nano), "--db-path", filepath.Join(p.Dir, "event_service.db")).wants(t, exitOK)
		for !accepted && time.Until(due) > time.Second {
			accepted = do(t, nil, "get", "acme", call, "--db-path", filepath.Join(p.Dir, "event_service.db")).code == exitOK
		}
	}
	between.Drop(proxy.ToServer, proxy.ToClient)
	late := p.stderr.expects("events were published late")
	<-time.After(time.Until(due.Add(outage)))
	between.Pass()
	between.Reset() // what was lost makes a connection worthless
	<-late
	p.signal(t, syscall.SIGTERM)
	if code := p.ends(t); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	found := regexp.MustCompile(`stopped.* lateness_max=(\S+)`).FindStringSubmatch(p.stderr.String())
	if found == nil {
		t.Fatalf("the last line says nothing of lateness:\n%s", p.stderr.String())
	}
	if worst, err := time.ParseDuration(found[1]); err != nil || worst < outage {
		t.Errorf("the worst event was %s late, want %v at least\n%s", found[1], outage, p.stderr.String())
	}
}
