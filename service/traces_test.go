package service_test

import (
	"compress/gzip"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	otlp "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/event-service-agent/timer-service/internal/apiclient"
	"github.com/event-service-agent/timer-service/internal/logbuf"
	"github.com/event-service-agent/timer-service/timer"
)

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
