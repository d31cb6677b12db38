package service_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	otlp "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/internal/apiclient"
	"github.com/event-service-agent/timer-service/internal/logbuf"
	"github.com/event-service-agent/timer-service/internal/longtest"
	"github.com/event-service-agent/timer-service/service"
	"github.com/event-service-agent/timer-service/timer"
)

var quiet = slog.New(slog.DiscardHandler)

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func load(t *testing.T, environ ...string) config.Config {
	t.Helper()
	cfg, err := config.Load(nil, append([]string{
		"TIMER_DB_PATH=" + filepath.Join(t.TempDir(), "timers.db"), "TIMER_NATS_PORT=0",
	}, environ...), "")
	must(t, err)
	return cfg
}

// A runningService is a service at work.
type runningService struct {
	t     *testing.T
	lines *bufio.Scanner
	stop  context.CancelFunc
	ended chan error
	once  sync.Once
	err   error // of Run, once it was waited for
}

func run(t *testing.T, cfg config.Config) *runningService {
	t.Helper()
	return runLogged(t, cfg, quiet)
}

func runLogged(t *testing.T, cfg config.Config, log *slog.Logger) *runningService {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	in, out := io.Pipe()
	r := &runningService{t: t, lines: bufio.NewScanner(in), stop: stop, ended: make(chan error, 1)}
	go func() {
		r.ended <- service.Run(ctx, cfg, out, log)
		out.Close()
	}()
	t.Cleanup(func() { r.finish() })
	return r
}

// line returns the rest of the next line that begins with the part.
func (r *runningService) line(part string) string {
	r.t.Helper()
	for r.lines.Scan() {
		if name, rest, _ := strings.Cut(r.lines.Text(), " "); name == part {
			return strings.TrimSpace(rest)
		}
	}
	r.t.Fatalf("the service printed no %q", part)
	return ""
}

// finish stops the service and returns its error.
func (r *runningService) finish() error {
	r.stop()
	for r.lines.Scan() { // a pipe blocks its writer
	}
	r.once.Do(func() { r.err = <-r.ended })
	return r.err
}

// stops fails the test unless the service stops cleanly.
func (r *runningService) stops() {
	r.t.Helper()
	if err := r.finish(); err != nil {
		r.t.Errorf("Run: %v", err)
	}
}

func TestWaitsForAnAbsentBroker(t *testing.T) {
	t.Parallel()
	s := natsSite(t)
	s.proxy.Refuse()
	url := s.environ[0]
	r := run(t, load(t, url))
	if says := r.line("waiting"); !strings.Contains(says, url[strings.LastIndexByte(url, ':'):]) {
		t.Errorf("waiting says %q", says)
	}
	s.proxy.Pass()
	r.line("ready")
	r.stops()
}

// TestHealthNamesALogThatGrows makes that of the database large.
func TestHealthNamesALogThatGrows(t *testing.T) {
	t.Parallel()
	cfg := load(t, "TIMER_HTTP_ADDR=127.0.0.1:0")
	r := run(t, cfg)
	address, _, _ := strings.Cut(r.line("http"), ",")
	r.line("ready")
	c := apiclient.New(address, "")
	line := func() (reason string) {
		is, err := c.Readiness(t.Context())
		if err != nil || !is.Ready {
			t.Fatalf("%+v, %v", is, err)
		}
		for _, p := range is.Parts {
			if p.Part == "log" {
				reason = p.Reason
			}
		}
		return reason
	}
	if reason := line(); reason != "" {
		t.Errorf("at first: %s", reason)
	}
	must(t, os.Truncate(cfg.DBPath+"-wal", 300<<20))
	until(t, "word of the log", func() bool { return strings.Contains(line(), cfg.DBPath+"-wal, has 300 MiB") })
	r.stops()
}

// TestProfilesAreServedIfAskedFor with TIMER_HTTP_PPROF.
func TestProfilesAreServedIfAskedFor(t *testing.T) {
	t.Parallel()
	r := run(t, load(t, "TIMER_HTTP_ADDR=127.0.0.1:0", "TIMER_HTTP_PPROF=true"))
	address, _, _ := strings.Cut(r.line("http"), ",")
	r.line("ready")
	answer, err := http.Get(address + "/debug/pprof/heap")
	must(t, err)
	defer answer.Body.Close()
	if profile, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK || len(profile) == 0 {
		t.Errorf("status %d, %d bytes, %v", answer.StatusCode, len(profile), err)
	}
	r.stops()
}

func TestMain(m *testing.M) { os.Exit(longtest.Waiting(m)) }

// TestStopsWhileItWaitsForTheDatabase is stopped before there is one.
func TestStopsWhileItWaitsForTheDatabase(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, closed.Close())
	cfg := load(t, "TIMER_BROKER=gochannel", "TIMER_DB_URL=postgres://user:secret@"+closed.Addr().String()+"/timers?sslmode=disable")
	ctx, stop := context.WithCancel(t.Context())
	logs := stopper{on: "waiting for the database", stop: stop}
	if err := service.Run(ctx, cfg, io.Discard, slog.New(slog.NewTextHandler(&logs, nil))); err != nil {
		t.Errorf("Run: %v", err)
	}
	if ctx.Err() == nil {
		t.Error("it did not wait")
	}
	if strings.Contains(logs.text, "secret") {
		t.Errorf("the log has the password: %s", logs.text)
	}
}

// A stopper stops the service when it writes something to its log.
type stopper struct {
	on   string
	stop context.CancelFunc
	text string
}

func (s *stopper) Write(text []byte) (int, error) {
	s.text += string(text)
	if strings.Contains(s.text, s.on) {
		s.stop()
	}
	return len(text), nil
}

// TestSystemdIsNotified has the socket of systemd: it learns of the start, that the
// process works, and of the stop.
func TestSystemdIsNotified(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	must(t, err)
	defer socket.Close()
	next := func() string {
		t.Helper()
		must(t, socket.SetReadDeadline(time.Now().Add(time.Minute)))
		text := make([]byte, 100)
		n, err := socket.Read(text)
		must(t, err)
		return string(text[:n])
	}
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "30000")
	r := run(t, load(t))
	r.line("ready")
	got := []string{next(), next(), next()}
	r.stops()
	last := ""
	for last != "STOPPING=1" {
		last = next()
	}
	if diff := cmp.Diff([]string{"READY=1", "WATCHDOG=1", "WATCHDOG=1"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A collector is an OTLP receiver.
type collector struct {
	mu    sync.Mutex
	spans map[string]bool // by name
	about string          // what the resource says
}

// ServeHTTP takes what an exporter sends.
func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		body, _ = gzip.NewReader(r.Body)
	}
	var request otlp.ExportTraceServiceRequest
	if b, err := io.ReadAll(body); err != nil || r.URL.Path == "/v1/traces" && proto.Unmarshal(b, &request) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range request.ResourceSpans {
		c.about = resource.Resource.String()
		for _, scope := range resource.ScopeSpans {
			for _, s := range scope.Spans {
				c.spans[s.Name] = true
			}
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// TestSpansGoToTheCollectorThatTheVariablesName follows a request until its timer has
// fired and the service has stopped.
func TestSpansGoToTheCollectorThatTheVariablesName(t *testing.T) {
	c := &collector{spans: make(map[string]bool)}
	receiver := httptest.NewServer(c)
	defer receiver.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
	t.Setenv("OTEL_METRICS_EXPORTER", "none")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
	var log logbuf.Buffer
	cfg := load(t, "TIMER_HTTP_ADDR=127.0.0.1:0")
	r := runLogged(t, cfg, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	url, _, _ := strings.Cut(r.line("http"), ",")
	r.line("ready")
	call := apiclient.TimerPath(timer.Key{TenantID: "acme", ServiceCallID: "order-1"})
	if _, err := apiclient.New(url, "").Send(t.Context(), http.MethodPut, call, []byte(`{"in":"0s"}`)); err != nil {
		t.Fatal(err)
	}
	awaitReached(t, cfg, 1) // a stop leaves what is due to the next start
	r.stops()

	c.mu.Lock()
	defer c.mu.Unlock()
	want := []string{"PUT", "create DueTimeReached", "process ScheduleTimer", "send DueTimeReached"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(c.spans))); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
	if !strings.Contains(c.about, "timer-service") || !strings.Contains(c.about, "deployment.environment.name") {
		t.Errorf("the resource is %s", c.about)
	}
	if !strings.Contains(log.String(), "trace_id=") {
		t.Error("no line of the log has a trace id")
	}
}
