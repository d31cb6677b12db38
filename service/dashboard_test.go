package service_test

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/internal/logbuf"
)

// TestFirstLineIsTheDashboard with an address that shows it, and the service behind it.
func TestFirstLineIsTheDashboard(t *testing.T) {
	t.Parallel()
	r := run(t, load(t, "TIMER_HTTP_ADDR=127.0.0.1:0", "TIMER_HTTP_PREFIX=/timers"))
	r.lines.Scan()
	name, address, _ := strings.Cut(r.lines.Text(), " ")
	if name != "dashboard" {
		t.Fatalf("the first line is %q", r.lines.Text())
	}
	address = strings.TrimSpace(address)
	r.line("ready")
	for path, says := range map[string]string{"": "Lateness, last 15 minutes", "nodes": "this one", "do/pause": "Pause firing for all tenants"} {
		answer, err := http.Get(address + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != 200 || !strings.Contains(string(body), says) {
			t.Errorf("%s%s: %v %d, no %q in\n%s", address, path, err, answer.StatusCode, says, body)
		}
	}
	if err := r.finish(); err != nil {
		t.Error(err)
	}
}

// TestTokenThatCanBeGuessedIsWarnedOf, and not shown.
func TestTokenThatCanBeGuessedIsWarnedOf(t *testing.T) {
	t.Parallel()
	for token, want := range map[string]int{"": 0, "hunter2-hunter2": 1, "hunter2-hunter2-": 0} {
		var log logbuf.Buffer
		r := runLogged(t, load(t, "TIMER_HTTP_ADDR=127.0.0.1:0", "TIMER_HTTP_TOKEN="+token), slog.New(slog.NewTextHandler(&log, nil)))
		r.line("ready")
		if err := r.finish(); err != nil {
			t.Error(err)
		}
		if text := log.String(); strings.Count(text, "http_token is short") != want || strings.Contains(text, "hunter2") {
			t.Errorf("a token of %d characters: %s", len(token), text)
		}
	}
}
