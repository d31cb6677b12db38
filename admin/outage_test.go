package admin_test

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/timer"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/broker/nats/embedded"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/freeport"
	"github.com/event-service-agent/timer-service/internal/longtest"
)

// TestOverviewShowsAnOutageWhileItLasts stops a NATS server, under a timer that becomes
// due, and starts it again.
func TestOverviewShowsAnOutageWhileItLasts(t *testing.T) {
	t.Parallel()
	t.Run("3s", func(t *testing.T) {
		t.Parallel()
		outage(t, 3*time.Second)
	})
	t.Run("40s", func(t *testing.T) {
		longtest.Skip(t, "a broker is away for 40s")
		t.Parallel()
		outage(t, 40*time.Second)
	})
}

var (
	lateNow   = regexp.MustCompile(`Late now</dt><dd class="big ?(?:bad)?">(?:(\d+) min ?)?(?:([\d.]+) s)?</dd>`)
	worstSeen = regexp.MustCompile(`the worst (?:(\d+) min ?)?(?:([\d.]+) s)?; `)
)

// seconds returns the duration that a pattern finds in a page, of minutes or seconds or
// both, in seconds, or -1.
func seconds(pattern *regexp.Regexp, page string) float64 {
	if found := pattern.FindStringSubmatch(page); found != nil {
		minutes, err1 := strconv.ParseFloat(cmp.Or(found[1], "0"), 64)
		rest, err2 := strconv.ParseFloat(cmp.Or(found[2], "0"), 64)
		if err1 == nil && err2 == nil && found[1]+found[2] != "" {
			return 60*minutes + rest
		}
	}
	return -1
}

func outage(t *testing.T, away time.Duration) {
	port, err := freeport.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	opt := embedded.Options{Port: port, PortOnly: true, StoreDir: t.TempDir(), SyncLazily: true}
	server, err := embedded.Start(opt, quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { server.Shutdown() }()
	b := nats.New(nats.Options{URL: server.URL()}, quiet)
	during(t, b.Run)
	store, counters := database(t), new(app.Counters)
	a, err := app.New(store, b, quiet, app.Options{Counters: counters})
	if err != nil {
		t.Fatal(err)
	}
	during(t, a.Run)
	history, monitor := admin.NewHistory(counters, store.Stats), admin.NewMonitor(a.Checks, quiet)
	during(t, history.Run)
	during(t, monitor.Run)
	s := admin.New(quiet, admin.Options{Monitor: monitor, Timers: store, History: history, Broker: b})
	eventually(t, "a service that is ready", func() bool { return monitor.Health().Ready() })

	if err := a.Pause(t.Context(), timer.Pause{By: "test"}); err != nil { // else it may fire before the server is away
		t.Fatal(err)
	}
	c := command("acme", "order-1", time.Now().Add(time.Second), 1)
	c.TimestampMS = time.Now().UnixMilli()
	m := broker.Message{Topic: b.Routing().CommandsOf("acme"), Message: message.NewMessage(c.CommandID, envelope.Schedule(c))}
	if err := b.Publisher().Publish(t.Context(), m)[0]; err != nil {
		t.Fatal(err)
	}
	eventually(t, "a timer", func() bool { st, err := store.Stats(t.Context(), ""); return err == nil && st.Scheduled == 1 })
	server.Shutdown()
	if err := a.Resume(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	<-time.After(time.Until(c.DueAt.Add(away)))
	_, page := get(s, "/")
	least := 0.9 * away.Seconds()
	if late := seconds(lateNow, page); late < least {
		t.Errorf("after %v the overview says %v s", away, late)
	}
	for _, text := range []string{"Late: the oldest event", "Broker does not work", "start the broker or repair the network"} {
		if !strings.Contains(page, text) {
			t.Errorf("after %v the overview does not say %q", away, text)
		}
	}

	if server, err = embedded.Start(opt, quiet); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a published event, which is no longer in the outbox", func() bool {
		st, err := store.Stats(t.Context(), "")
		return err == nil && counters.Forwarded() == 1 && st.Outbox == 0
	})
	_, page = get(s, "/")
	if worst := seconds(worstSeen, page); worst < least {
		t.Errorf("afterwards the worst is %v s", worst)
	}
	if late := seconds(lateNow, page); late >= 1 || !strings.Contains(page, "On time now") {
		t.Errorf("afterwards it is late by %v s, or does not say that it is on time now", late)
	}
}
