package service_test

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	otlp "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/event-service-agent/timer-service/internal/logbuf"
)

// A collector is an OTLP receiver.
type collector struct {
	mu    sync.Mutex
	spans map[string]*spans.Span // by name; an event's and a request's differ
	about string                 // what the resource says
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
				c.spans[s.Name] = s
			}
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// TestSpansGoToTheCollectorThatTheVariablesName follows a request until its timer has
// fired and the service has stopped.
func TestSpansGoToTheCollectorThatTheVariablesName(t *testing.T) {
	c := &collector{spans: make(map[string]*spans.Span)}
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
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url+"/v1/tenants/acme/timers/order-1?wait=10s", bytes.NewBufferString(`{"in":"0s"}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Traceparent", parent)
	for _, req := range []*http.Request{request, httptest.NewRequest(http.MethodGet, url+"/readyz", nil)} {
		req.RequestURI = ""
		answer, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusConflict { // it may have fired already
			t.Fatalf("%s: %s %s", req.URL, answer.Status, body)
		}
	}
	awaitReached(t, cfg, 1, 0) // a stop leaves what is due to the next start
	if err := r.finish(); err != nil {
		t.Fatal(err)
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	put, process, create, send := c.spans["PUT"], c.spans["process ScheduleTimer"], c.spans["create DueTimeReached"], c.spans["send DueTimeReached"]
	if put == nil || process == nil || create == nil || send == nil || len(c.spans) != 4 {
		t.Fatalf("the collector has %v", c.spans)
	}
	for _, s := range []struct {
		child  *spans.Span
		parent []byte
	}{{put, fromHex(t, parent[36:52])}, {process, put.SpanId}, {create, nil}, {send, create.SpanId}} {
		if !bytes.Equal(s.child.ParentSpanId, s.parent) {
			t.Errorf("the parent of %q is %x, want %x", s.child.Name, s.child.ParentSpanId, s.parent)
		}
	}
	if !bytes.Equal(process.TraceId, fromHex(t, parent[3:35])) || len(create.Links) != 1 || !bytes.Equal(create.Links[0].SpanId, process.SpanId) {
		t.Errorf("the command is not in the trace of the request, or the firing has no link to it: %v", create.Links)
	}
	if !strings.Contains(c.about, "timer-service") || !strings.Contains(c.about, "deployment.environment.name") {
		t.Errorf("the resource is %s", c.about)
	}
	if want := "trace_id=" + hex.EncodeToString(process.TraceId) + " span_id=" + hex.EncodeToString(process.SpanId); !strings.Contains(log.String(), want) {
		t.Errorf("no line of the log has %s", want)
	}
}

func fromHex(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
