package telemetry_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/gochannel"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/poller"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/telemetry"
	"github.com/event-service-agent/timer-service/timer"
)

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sources are those of a service that has something of everything.
func sources(stats timer.Stats, err error) telemetry.Sources {
	return telemetry.Sources{
		Stats: func(context.Context, timer.TenantID) (timer.Stats, error) { return stats, err },
		Status: func() app.Status {
			return app.Status{Poller: poller.Status{Jumps: 2, Overdue: 7 * time.Second, Paused: timer.Pauses{"": {Since: time.Now()}, "acme": {Since: time.Now()}}}}
		},
		Checks:    func() []app.Check { return []app.Check{{Part: "store"}, {Part: "broker", Red: true}} },
		Instances: func() int { return 3 },
		Recovery:  func() *app.RecoveryProgress { return &app.RecoveryProgress{Ahead: 9} },
		Inbox: func(context.Context, timer.TenantID) ([]timer.InboxCount, error) {
			return []timer.InboxCount{{TenantID: "acme", Reason: timer.WaitQuota, Messages: 3, Bytes: 300}, {TenantID: "beta", Reason: timer.WaitQuota, Messages: 4, Bytes: 400}}, nil
		},
		Upcoming: func(_ context.Context, tenant timer.TenantID, from time.Time, width time.Duration, n, limit int) ([]int64, error) {
			if tenant != "" || n != 1 || limit < 1000 || time.Since(from).Abs() > time.Minute {
				return nil, errors.New("a count that nobody asks for")
			}
			return []int64{int64(width.Minutes())}, nil
		},
		Full: func() telemetry.Limit { return telemetry.Limit{Name: "max_bytes", Used: 0.5} },
		Disk: func() float64 { return 0.25 },
		Log:  func() int64 { return 4096 },
		Unprotected: func() timer.Unprotected {
			return timer.Unprotected{Timers: 12, Oldest: time.Now().Add(-time.Hour), At: time.Now()}
		},
		Backups: func() telemetry.Backups {
			return telemetry.Backups{Age: time.Minute, Every: time.Hour, Bytes: 4096, Failures: 1}
		},
	}
}

// scrape returns what Prometheus is answered, by the names of metrics.
func scrape(t *testing.T, h http.Handler) map[string]*dto.MetricFamily {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	r.Header.Set("Accept", string(expfmt.NewFormat(expfmt.TypeProtoDelim)))
	h.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	families := make(map[string]*dto.MetricFamily)
	decoder := expfmt.NewDecoder(bufio.NewReader(w.Body), expfmt.NewFormat(expfmt.TypeProtoDelim))
	for {
		f := new(dto.MetricFamily)
		if err := decoder.Decode(f); err != nil {
			break
		}
		families[f.GetName()] = f
	}
	if len(families) == 0 {
		t.Fatal("no metrics")
	}
	return families
}

// busy returns a telemetry for which everything has happened.
func busy(t *testing.T, stats timer.Stats, err error) *telemetry.Telemetry {
	t.Helper()
	tel, newErr := telemetry.New(t.Context(), "test", new(app.Counters))
	if newErr != nil {
		t.Fatal(newErr)
	}
	must(t, tel.Observe(sources(stats, err)))
	h, due := tel.Hooks(), time.Now().Truncate(time.Millisecond)
	h.Committed(7, time.Millisecond, nil)
	h.Committed(1, time.Millisecond, errors.New("disk full"))
	h.Polled(time.Millisecond, nil)
	h.Polled(time.Millisecond, errors.New("disk full"))
	var events []timer.DueTimeReached
	var messages []*message.Message
	for _, late := range []time.Duration{0, time.Millisecond, 3 * time.Millisecond, 40 * time.Second, 2 * time.Hour} {
		e := timer.DueTimeReached{DueAt: due.Add(-late), ReachedAt: due}
		events, messages = append(events, e), append(messages, message.NewMessage(envelope.EventID(e), nil))
	}
	h.Reached(events)
	h.Published(due, append(messages, message.NewMessage("another's", nil)))
	return tel
}

func TestLatenessHasBuckets(t *testing.T) {
	t.Parallel()
	families := scrape(t, busy(t, timer.Stats{}, nil).Handler())
	for _, name := range []string{"timer_lateness_reached_seconds", "timer_lateness_published_seconds"} {
		h := families[name].GetMetric()[0].GetHistogram()
		if h.GetSampleCount() != 5 || h.GetSampleSum() < 7240 || h.GetSampleSum() > 7240.1 {
			t.Errorf("%s: %d of together %v s", name, h.GetSampleCount(), h.GetSampleSum())
		}
		got := make(map[float64]uint64)
		for _, b := range h.GetBucket() {
			got[b.GetUpperBound()] = b.GetCumulativeCount()
		}
		for bound, want := range map[float64]uint64{.001: 2, .002: 2, .005: 3, 30: 3, 60: 4, 3600: 4} {
			if got[bound] != want {
				t.Errorf("%s: %d of at most %v s, want %d", name, got[bound], bound, want)
			}
		}
	}
}

func TestGaugesShowWhatIs(t *testing.T) {
	t.Parallel()
	now := time.Now()
	stats := timer.Stats{
		Counts:  timer.Counts{Scheduled: 5, Reached: 6, Canceled: 7},
		NextDue: now.Add(-time.Minute), Outbox: 8, Oldest: now.Add(-time.Hour), Parked: 9,
	}
	got := make(map[string]float64)
	for name, f := range scrape(t, busy(t, stats, nil).Handler()) {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			got[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
			name = f.GetName()
		}
	}
	for name, want := range map[string]float64{
		"timer_timers Scheduled": 5, "timer_timers Reached": 6, "timer_timers Canceled": 7, "timer_inbox_messages over_quota": 7, "timer_inbox_messages failed": 0, "timer_inbox_size_bytes": 700, "timer_outbox_depth": 8, "timer_outbox_parked": 9,
		"timer_overdue_age_seconds": 60, "timer_outbox_age_seconds": 3600, "timer_poll_age_seconds": 7, "timer_instances": 3, "timer_recovery_ahead": 9, "timer_database_log_size_bytes": 4096, "timer_firing_paused": 1, "timer_clock_jumps_total": 2,
		"timer_ready_ratio store": 1, "timer_ready_ratio broker": 0,
		"timer_broker_used_ratio max_bytes": 0.5, "timer_database_disk_used_ratio": 0.25, "timer_due_soon 1m": 1, "timer_due_soon 10m": 10, "timer_due_soon 1h": 60, "timer_unprotected_timers": 12, "timer_unprotected_oldest_age_seconds": 3600,
		"timer_backup_age_seconds": 60, "timer_backup_interval_seconds": 3600, "timer_backup_size_bytes": 4096, "timer_backup_failures_total": 1,
	} {
		if v, there := got[name]; !there || v < want || v > want+5 {
			t.Errorf("%s is %v (%v), want %v", name, v, there, want)
		}
	}
}

// TestNothingOverdueIsZero: the next timer is due in the future, and none waits.
func TestNothingOverdueIsZero(t *testing.T) {
	t.Parallel()
	families := scrape(t, busy(t, timer.Stats{NextDue: time.Now().Add(time.Hour)}, nil).Handler())
	for _, name := range []string{"timer_overdue_age_seconds", "timer_outbox_age_seconds"} {
		if v := families[name].GetMetric()[0].GetGauge().GetValue(); v != 0 {
			t.Errorf("%s is %v", name, v)
		}
	}
}

// TestMetricsWithoutADatabase: the metrics of the database are missing, all others are
// there.
func TestMetricsWithoutADatabase(t *testing.T) {
	t.Parallel()
	families := scrape(t, busy(t, timer.Stats{}, errors.New("connection refused")).Handler())
	if families["timer_timers"] != nil || families["timer_ready_ratio"] == nil || families["timer_lateness_published_seconds"] == nil {
		t.Errorf("metrics: %v", families)
	}
}

var row = regexp.MustCompile("(?m)^\\| `(timer_[a-z_]+)` \\| (\\w+) \\|([^|]*)\\|")

// TestMetricsAreAsDocumented compares docs/monitoring.md with what Prometheus is answered.
func TestMetricsAreAsDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/monitoring.md")
	must(t, err)
	var documented, answered []string
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		documented = append(documented, m[1]+" "+m[2]+" "+strings.TrimSpace(strings.NewReplacer("`", "", ", ", " ").Replace(m[3])))
	}
	tel := served(t)
	for name, f := range scrape(t, tel.Handler()) {
		if !strings.HasPrefix(name, "timer_") {
			continue
		}
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		answered = append(answered, strings.TrimSpace(fmt.Sprint(name, " ", strings.ToLower(f.GetType().String()), " ", strings.Join(labels, " "))))
	}
	slices.Sort(documented)
	slices.Sort(answered)
	for i := range documented {
		documented[i] = strings.TrimSpace(documented[i])
	}
	if diff := cmp.Diff(documented, answered); diff != "" {
		t.Errorf("docs/monitoring.md and what is served differ (-page +served):\n%s", diff)
	}
}

// TestOTLPIsOnWithTheStandardVariables sends metrics to a receiver, at the stop at the
// latest, and without the variables to none.
func TestOTLPIsOnWithTheStandardVariables(t *testing.T) {
	var received atomic.Int64
	var text atomic.Value
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil && r.URL.Path == "/v1/metrics" {
			received.Add(1)
			text.Store(string(body))
		}
	}))
	defer receiver.Close()
	for endpoint, want := range map[string]bool{receiver.URL: true, "": false} {
		received.Store(0)
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
		t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
		t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
		must(t, busy(t, timer.Stats{}, nil).Shutdown(t.Context()))
		if got := received.Load() > 0; got != want {
			t.Fatalf("with the endpoint %q: %d received", endpoint, received.Load())
		}
	}
	for _, name := range []string{"timer.lateness.published", "timer.outbox.depth", "timer-service"} {
		if body, _ := text.Load().(string); !strings.Contains(body, name) {
			t.Errorf("no %s in what was sent", name)
		}
	}
}

// served returns the telemetry of a service that has fired a timer, refused a command,
// and delayed one over a quota.
func served(t *testing.T) *telemetry.Telemetry {
	t.Helper()
	quiet, counters := slog.New(slog.DiscardHandler), new(app.Counters)
	tel, err := telemetry.New(t.Context(), "test", counters)
	must(t, err)
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "timers.db"), sqlite.Options{})
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	b := gochannel.New(gochannel.Options{}, quiet)
	quotas, err := quota.New(quota.Config{Tenants: map[timer.TenantID]quota.Limits{"flood": {Live: 1}}}, timer.ClockFunc(time.Now), quota.Options{})
	must(t, err)
	hosted, err := app.New(s, nil, quiet, app.Options{Counters: counters}) // does not run
	must(t, err)
	hosted.Timers().OnDue("order-", func(context.Context, timer.DueTimeReached) error { return nil }, app.OnDueOptions{})
	a, err := app.New(s, b, quiet, app.Options{Counters: counters, Hooks: []app.Hooks{tel.Hooks()}, Quotas: quotas})
	must(t, err)
	var checks []app.Check
	must(t, tel.Observe(telemetry.Sources{
		Stats: s.Stats, Status: a.Status, Instances: func() int { return 1 }, Recovery: a.Recovery, Checks: func() []app.Check { return checks },
		Inbox:       s.Inbox().InboxCounts,
		Upcoming:    s.Upcoming,
		Full:        func() telemetry.Limit { return telemetry.Limit{Name: "max_bytes", Used: 0.5} },
		Disk:        func() float64 { return 0.25 },
		Log:         func() int64 { return 4096 },
		Unprotected: func() timer.Unprotected { return timer.Unprotected{At: time.Now()} },
		Backups:     func() telemetry.Backups { return telemetry.Backups{Every: time.Hour} },
	}))
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = b.Run(ctx) })
	running.Go(func() { _ = a.Run(ctx) })
	defer running.Wait() // then all hooks have returned
	defer stop()
	<-a.Running()
	for b.Ready(ctx) != nil { // which it does not wait for
		runtime.Gosched()
	}
	events, err := b.Tail().Subscribe(ctx, b.Routing().EventsOf("acme"))
	must(t, err)
	publish := func(tenant timer.TenantID, body []byte) {
		must(t, broker.NewWatermillPublisher(b.Publisher()).Publish(b.Routing().CommandsOf(tenant), message.NewMessage(rand.Text(), body)))
	}
	schedule := func(tenant timer.TenantID, call timer.ServiceCallID, due time.Time) {
		publish(tenant, envelope.Schedule(timer.ScheduleTimer{
			Key:     timer.Key{TenantID: tenant, ServiceCallID: call},
			Version: timer.Version{TimestampMS: time.Now().UnixMilli(), CommandID: "command-" + string(call)}, DueAt: due,
		}))
	}
	schedule("acme", "call-1", time.Now())
	(<-events).Ack()
	publish("acme", []byte("no envelope"))
	schedule("flood", "call-1", time.Now().Add(time.Hour))
	schedule("flood", "call-2", time.Now().Add(time.Hour))
	happened := func() bool {
		outcomes := make(map[string]bool)
		for r := range counters.Commands() {
			outcomes[r.Outcome] = true
		}
		return counters.Forwarded() > 0 && outcomes[handlers.OutcomeInvalid] && outcomes[handlers.OutcomeOverQuota]
	}
	for !happened() {
		runtime.Gosched()
	}
	checks = a.Checks(ctx)
	return tel
}
