package telemetry_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/freeport"
	"github.com/event-service-agent/timer-service/timer"
)

// A panel of the dashboard, and its queries.
type panel struct {
	ID          int
	Type, Title string
	GridPos     struct{ X, Y, W, H int }
	Targets     []struct{ RefID, Expr string }
}

type board struct {
	UID, Title    string
	SchemaVersion int
	Panels        []panel
}

// dashboard reads docs/grafana.json.
func dashboard(t *testing.T) board {
	t.Helper()
	var b board
	if err := json.Unmarshal([]byte(read(t, "../docs/grafana.json")), &b); err != nil {
		t.Fatal(err)
	}
	if len(b.Panels) < 15 {
		t.Fatalf("%d panels", len(b.Panels))
	}
	return b
}

func TestPanelsOfTheDashboardHaveTheirPlace(t *testing.T) {
	t.Parallel()
	ids, taken := make(map[int]string), make(map[[2]int]string)
	for _, p := range dashboard(t).Panels {
		if other, again := ids[p.ID]; again || p.ID == 0 {
			t.Errorf("%q has the id %d of %q", p.Title, p.ID, other)
		}
		ids[p.ID] = p.Title
		if g := p.GridPos; g.X < 0 || g.W < 1 || g.H < 1 || g.X+g.W > 24 {
			t.Errorf("%q is outside: %+v", p.Title, g)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" {
					t.Fatalf("%q covers %q", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if (p.Type == "row") != (len(p.Targets) == 0) {
			t.Errorf("%q, a %s, has %d queries", p.Title, p.Type, len(p.Targets))
		}
	}
}

// A server is a Prometheus of this test alone.
type server struct {
	url     string
	scraped chan struct{} // one for each scrape that begins
	ended   chan struct{} // closed when the process has ended
	log     string        // file
}

// startPrometheus has a Prometheus scrape a handler each second, and evaluate the rules.
func startPrometheus(t *testing.T, h http.Handler) *server {
	t.Helper()
	program, err := exec.LookPath("prometheus")
	if err != nil {
		missing(t, "prometheus", err)
	}
	s := &server{scraped: make(chan struct{}), ended: make(chan struct{})}
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case s.scraped <- struct{}{}:
		default:
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(target.Close)
	port, err := freeport.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	file, err := filepath.Abs(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s.url, s.log = fmt.Sprintf("http://127.0.0.1:%d", port), filepath.Join(dir, "log")
	config := fmt.Sprintf(`
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs:
  - job_name: timer-service
    static_configs: [{targets: [%q]}]
`, file, strings.TrimPrefix(target.URL, "http://"))
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(s.log)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "--config.file="+filepath.Join(dir, "prometheus.yml"), //nolint:gosec // a program of this machine
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+strings.TrimPrefix(s.url, "http://"))
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.ended)
		defer out.Close()
		_ = cmd.Wait()
	}()
	t.Cleanup(func() { <-s.ended }) // t.Context is done by now
	return s
}

// get returns the data of an answer of the API.
func get[T any](t *testing.T, s *server, path string) (data T, err error) {
	t.Helper()
	r, err := http.Get(s.url + path)
	if err != nil {
		return data, err
	}
	defer r.Body.Close()
	var answer struct {
		Status, Error string
		Data          T
	}
	if err := json.NewDecoder(r.Body).Decode(&answer); err != nil {
		return data, err
	}
	if answer.Status != "success" {
		return data, errors.New(answer.Error)
	}
	return answer.Data, nil
}

// count returns how many series a query has now.
func (s *server) count(t *testing.T, query string) (int, error) {
	t.Helper()
	data, err := get[struct{ Result []json.RawMessage }](t, s, "/api/v1/query?query="+url.QueryEscape(query))
	return len(data.Result), err
}

// await asks again after each scrape until nothing is missing.
func (s *server) await(t *testing.T, missing func() []string) {
	t.Helper()
	const scrapes = 60
	var last []string
	for range scrapes {
		select {
		case <-s.scraped:
			if last = missing(); len(last) == 0 {
				return
			}
		case <-s.ended:
			t.Fatalf("Prometheus ended:\n%s", read(t, s.log))
		}
	}
	t.Fatalf("after %d scrapes still: %s", scrapes, strings.Join(last, "\n"))
}

// TestPrometheusAnswersDashboardAndAlerts runs each query in a real Prometheus. Those of
// the dashboard, and each metric of an alert, return something.
func TestPrometheusAnswersDashboardAndAlerts(t *testing.T) {
	t.Parallel()
	tel := served(t)
	h := tel.Hooks()
	s := startPrometheus(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now := time.Now()
		for _, err := range []error{nil, errors.New("disk full")} {
			h.Polled(time.Millisecond, err)
			h.Committed(1, time.Millisecond, err)
		}
		for range 50 {
			e := timer.DueTimeReached{DueAt: now.Add(-2 * time.Second), ReachedAt: now}
			h.Reached([]timer.DueTimeReached{e})
			h.Published(now, []*message.Message{message.NewMessage(envelope.EventID(e), nil)})
		}
		tel.Handler().ServeHTTP(w, r)
	}))

	queries := make(map[string]string) // and where each is
	for _, p := range dashboard(t).Panels {
		for _, q := range p.Targets {
			queries[strings.NewReplacer("$__rate_interval", "1m", "$job", "timer-service", "$instance", ".*").Replace(q.Expr)] = p.Title
		}
	}
	all, alerts := rules(t)
	for _, r := range all {
		for _, used := range selectors(r.Expr) {
			queries[used.text] = r.name()
		}
	}
	s.await(t, func() (empty []string) {
		for query, where := range queries {
			n, err := s.count(t, query)
			if err != nil || n == 0 {
				empty = append(empty, fmt.Sprintf("%s: %s: %d series, %v", where, query, n, err))
			}
		}
		return empty
	})
	for _, r := range all {
		if _, err := s.count(t, r.Expr); err != nil {
			t.Errorf("%s: %s: %v", r.name(), r.Expr, err)
		}
	}

	s.await(t, func() (unhealthy []string) {
		type group struct {
			Rules []struct{ Name, Health, LastError string }
		}
		data, err := get[struct{ Groups []group }](t, s, "/api/v1/rules")
		if err != nil {
			return []string{err.Error()}
		}
		var names []string
		for _, g := range data.Groups {
			for _, r := range g.Rules {
				names = append(names, r.Name)
				if r.Health != "ok" {
					unhealthy = append(unhealthy, r.Name+" "+r.Health+" "+r.LastError)
				}
			}
		}
		for _, name := range alerts {
			if !slices.Contains(names, name) {
				unhealthy = append(unhealthy, name+" is not loaded")
			}
		}
		return unhealthy
	})
	// Those for which something has happened here, firing or about to.
	s.await(t, func() (absent []string) {
		type alert struct{ Labels, Annotations map[string]string }
		data, err := get[struct{ Alerts []alert }](t, s, "/api/v1/alerts")
		if err != nil {
			return []string{err.Error()}
		}
		absent = []string{"TimerDeadLetters", "TimerDatabaseErrors", "TimerLatenessBurnsFast"}
		for _, a := range data.Alerts {
			for name, text := range a.Annotations {
				if strings.Contains(text, "<error") {
					t.Errorf("%s: %s: %s", a.Labels["alertname"], name, text)
				}
			}
			absent = slices.DeleteFunc(absent, func(name string) bool { return name == a.Labels["alertname"] })
		}
		return absent
	})
}
