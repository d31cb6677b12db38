package poison_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/freeport"
	"github.com/event-service-agent/timer-service/timer"
	"github.com/event-service-agent/timer-service/verify/internal/harness"
)

var attackFlag = flag.Duration("poison.attack", 5*time.Second, "how long a hostile tenant attacks")

// The tenant acme is hostile: it has the credentials that a page of docs/brokers gives a
// producer and a consumer of one tenant. The timers of globex are judged.
const (
	attacker = "acme"
	victims  = "globex"

	glance = 200 * time.Millisecond // between two looks at /readyz
)

// A victim is the tenant that is attacked: it schedules timers steadily, and gets their events.
type victim struct {
	*world
	http    string
	publish func(body []byte) error // returns when the broker has the command

	mu     sync.Mutex
	due    map[string]time.Time // by service call; when its event is due, or was accepted if that is later
	fired  map[string]string    // ids of events, by service call
	latest time.Duration
	when   time.Time // when the latest event came
	red    []string  // what /readyz said
	heard  []string  // what the attacker has read of others
}

// newVictim starts the service with settings.
func newVictim(t *testing.T, settings ...string) *victim {
	t.Helper()
	quotas := filepath.Join(t.TempDir(), "quotas.yaml")
	harness.Must(t, os.WriteFile(quotas, []byte("default: {live_timers: 100000, accept_rate: 500/s, over_quota: dead_letter}\n"), 0o600))
	v := &victim{world: &world{T: t}, http: freeport.Address(harness.Port(t)), due: make(map[string]time.Time), fired: make(map[string]string)}
	v.startService(append(settings, "TIMER_HTTP_ADDR="+v.http, "TIMER_QUOTAS_FILE="+quotas))
	return v
}

// scheduleOf returns a ScheduleTimer.
func scheduleOf(tenant, call string, due time.Time) []byte {
	return fmt.Appendf(nil, `{"id":%q,"type":"ScheduleTimer","tenantId":%q,"timestampMs":%d,"payload":{"tenantId":%q,"serviceCallId":%q,"dueAt":%q}}`,
		uuid.NewString(), tenant, time.Now().UnixMilli(), tenant, call, due.UTC().Format("2006-01-02T15:04:05.000Z"))
}

// forgeries are bodies that harm another tenant where they are believed.
func forgeries() [][]byte {
	now := time.Now().UTC()
	at := now.Format("2006-01-02T15:04:05.000Z")
	return [][]byte{
		scheduleOf(victims, "forged", now),
		fmt.Appendf(nil, `{"id":%q,"type":"CancelTimers","tenantId":%q,"timestampMs":%d,"payload":{"tenantId":%q,"prefix":"call-"}}`, uuid.NewString(), victims, now.UnixMilli(), victims),
		fmt.Appendf(nil, `{"id":%q,"type":"RescheduleTimers","tenantId":%q,"timestampMs":%d,"payload":{"tenantId":%q,"prefix":"call-","dueAt":"2030-01-31T12:00:00Z"}}`, uuid.NewString(), victims, now.UnixMilli(), victims),
		fmt.Appendf(nil, `{"id":%q,"type":"DueTimeReached","tenantId":%q,"aggregateId":"forged","timestampMs":%d,"payload":{"tenantId":%q,"serviceCallId":"forged","dueAt":%q,"reachedAt":%q}}`,
			uuid.NewString(), victims, now.UnixMilli(), victims, at, at),
		[]byte("forged"),
	}
}

// suffers schedules timers and watches the service while acme attacks, and then judges.
func (v *victim) suffers(attacks ...func(ctx context.Context)) {
	v.Helper()
	const lead, pace = 2 * time.Second, 20 * time.Millisecond
	disk := v.watchDisk()
	ctx, cancel := context.WithTimeout(v.Context(), *attackFlag)
	defer cancel()
	var busy sync.WaitGroup
	for _, attack := range attacks {
		busy.Go(func() { attack(ctx) })
	}
	busy.Go(func() { v.watchHealth(ctx) })
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for i := 0; ctx.Err() == nil; i++ {
		<-tick.C
		call, due := fmt.Sprint("call-", i), time.Now().Add(lead)
		v.mu.Lock()
		v.due[call] = due
		v.mu.Unlock()
		busy.Go(func() {
			if err := v.publish(scheduleOf(victims, call, due)); err != nil {
				v.Errorf("publish a command of %s: %v", victims, err)
			}
			v.mu.Lock()
			defer v.mu.Unlock()
			if now := time.Now(); now.After(due) {
				v.due[call] = now
			}
		})
	}
	busy.Wait()
	missing := func() int {
		v.mu.Lock()
		defer v.mu.Unlock()
		return len(v.due) - len(v.fired)
	}
	for late := time.Now().Add(time.Minute); missing() > 0 && time.Now().Before(late); {
		<-tick.C
	}
	slow := disk()
	if n := missing(); n > 0 {
		v.Errorf("%d of %d timers of %s are lost", n, len(v.due), victims)
	}
	busyFor := waits * max(0, slow-quick) // not the service's fault
	if limit := maxLate + busyFor; v.latest > limit {
		v.Errorf("an event of %s came %v late, more than %v", victims, v.latest, limit)
	}
	if time.Duration(len(v.red))*glance > busyFor {
		v.Errorf("the service was red %d times, first: %s", len(v.red), v.red[0])
	}
	if len(v.heard) > 0 {
		v.Errorf("%s read %d messages of others, first: %.300s", attacker, len(v.heard), v.heard[0])
	}
	v.stop()
	v.Logf("%d timers, the latest event %v late, at %s; red %d times %q; the slowest write of the disk took %v",
		len(v.fired), v.latest, v.when.Format(time.TimeOnly), len(v.red), v.red[:min(5, len(v.red))], slow)
}

// got judges a message that consumers of globex take for an event.
func (v *victim) got(body []byte) {
	at := time.Now()
	decoded, err := envelope.Decode(body)
	e, ok := decoded.Payload.(timer.DueTimeReached)
	v.mu.Lock()
	defer v.mu.Unlock()
	due, asked := v.due[string(e.ServiceCallID)]
	before := v.fired[string(e.ServiceCallID)]
	switch {
	case err != nil || !ok || !asked || e.TenantID != victims:
		v.Errorf("a forged event: %.300q, %v", body, err)
	case at.Before(e.DueAt):
		v.Errorf("%v fired early", e.Key)
	case before != "" && before != e.ID:
		v.Errorf("%v fired twice, as %s and %s", e.Key, before, e.ID)
	case before == "":
		v.fired[string(e.ServiceCallID)] = e.ID
		if late := at.Sub(due); late > v.latest {
			v.latest, v.when = late, at
		}
	}
}

// hears notes a message that the attacker has read and that is not its own.
func (v *victim) hears(what string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.heard = append(v.heard, what)
}

// watchHealth notes when the service is not ready.
func (v *victim) watchHealth(ctx context.Context) {
	for tick := time.NewTicker(glance); ctx.Err() == nil; <-tick.C {
		r, err := http.Get("http://" + v.http + "/readyz")
		said := fmt.Sprint(err)
		if err == nil {
			var body []byte
			body, err = io.ReadAll(io.LimitReader(r.Body, 200))
			said = fmt.Sprintf("%s: %s, %v", r.Status, body, err)
			_ = r.Body.Close()
		}
		if !strings.HasPrefix(said, "200") {
			v.mu.Lock()
			v.red = append(v.red, time.Now().Format(time.TimeOnly)+" "+said)
			v.mu.Unlock()
		}
	}
}

// pages is the folder of the pages with the permissions.
var pages = filepath.Join("..", "..", "docs", "brokers")
