package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/internal/freeport"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/verify/crash/history"
	"github.com/event-service-agent/timer-service/verify/crash/traffic"
)

// A quotaStats is what the API says about the tenant that has a quota.
type quotaStats struct {
	Scheduled int `json:"scheduled"`
	Waiting   struct {
		Quota int `json:"overQuota"`
	} `json:"waiting"`
}

// TestKillsAreNoWayRoundAQuota kills the service again and again while more commands come than
// may wait: never are there more timers than the quota says, and no command is lost.
func TestKillsAreNoWayRoundAQuota(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the service and kills it for half a minute: not with -short")
	}
	t.Parallel()
	const kills, each, live = 25, 40, 20
	ctx, dir := t.Context(), t.TempDir()
	bin, err := Build(ctx, dir)
	must(t, err)
	port, err := freeport.Find(ctx)
	must(t, err)
	api, err := freeport.Find(ctx)
	must(t, err)
	broker, err := StartServer(ctx, NATS, dir, port)
	must(t, err)
	t.Cleanup(func() { must(t, broker.Kill()) })
	quotas := filepath.Join(dir, "quotas.yaml")
	must(t, os.WriteFile(quotas, fmt.Appendf(nil, "tenants: {acme: {live_timers: %d}}\n", live), 0o600))
	log, err := os.Create(filepath.Join(t.ArtifactDir(), "service.log"))
	must(t, err)
	t.Cleanup(func() { must(t, log.Close()) })
	start := func(settings ...string) *Process {
		t.Helper()
		p, err := Start(context.WithoutCancel(ctx), bin, dir, append([]string{
			"TIMER_DB_PATH=" + filepath.Join(dir, "timers.db"), "TIMER_BROKER_URL=nats://" + freeport.Address(port), "TIMER_HTTP_ADDR=" + freeport.Address(api),
		}, settings...), log)
		must(t, err)
		return p
	}
	stats := func() (s quotaStats, err error) {
		response, err := http.Get("http://" + freeport.Address(api) + "/v1/tenants/acme")
		if err != nil {
			return s, err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return s, fmt.Errorf("answered %s", response.Status)
		}
		return s, json.NewDecoder(response.Body).Decode(&s)
	}
	conn, err := Connect(NATS.URL(port), "quota", "")
	must(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	must(t, err)
	sent := 0
	send := func() {
		var all sync.WaitGroup
		for range each {
			sent++
			body := traffic.NewBody("ScheduleTimer", "acme", fmt.Sprint("call-", sent), fmt.Sprint("command-", sent), time.Now().UnixMilli()).SetPayload("dueAt", `"2030-01-01T00:00:00Z"`).Plain()
			all.Go(func() {
				if _, err := js.Publish(ctx, history.CommandsTopic, body); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	random, most := rand.New(rand.NewPCG(1, 2)), 0
	for n := range kills {
		p := start("TIMER_QUOTAS_FILE=" + quotas)
		if n == 0 || random.IntN(3) > 0 { // otherwise it is hit while it starts
			must(t, p.Await(ctx, time.Minute))
		}
		if n == 0 || n%2 == 1 {
			send()
		}
		for until := time.Now().Add(time.Duration(random.IntN(700)) * time.Millisecond); time.Now().Before(until); pause.For(ctx, 20*time.Millisecond) {
			if s, err := stats(); err == nil {
				most = max(most, s.Scheduled)
			}
		}
		must(t, p.Kill())
	}
	within := func(what string, done func(s quotaStats) bool) {
		t.Helper()
		var s quotaStats
		var err error
		for until := time.Now().Add(time.Minute); time.Now().Before(until); pause.For(ctx, 100*time.Millisecond) {
			if s, err = stats(); err == nil {
				if most = max(most, s.Scheduled); done(s) {
					return
				}
			}
		}
		t.Errorf("not within a minute: %s; %+v, %v", what, s, err)
	}
	p := start("TIMER_QUOTAS_FILE=" + quotas)
	within("all others wait", func(s quotaStats) bool { return s.Scheduled == live && s.Waiting.Quota == sent-live })
	if most > live {
		t.Errorf("there were %d timers, of %d that may wait", most, live)
	}
	must(t, p.Stop(time.Minute))
	p = start()
	within("without the quota all are scheduled", func(s quotaStats) bool { return s.Scheduled == sent && s.Waiting.Quota == 0 })
	must(t, p.Stop(time.Minute))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
