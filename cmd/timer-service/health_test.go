package main

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
)

// TestHealthOfAService asks one that runs, whose broker is then taken away, and one
// that does not run.
func TestHealthOfAService(t *testing.T) {
	t.Parallel()
	p := startIn(t, []string{"TIMER_HTTP_ADDR=127.0.0.1:0", "TIMER_NATS_PORT=0"}, "main", "serve")
	server := ""
	for p.lines.Scan() {
		if text, found := strings.CutPrefix(p.lines.Text(), "http "); found {
			server, _, _ = strings.Cut(strings.TrimSpace(text), ",")
		}
		if strings.HasPrefix(p.lines.Text(), "ready") {
			break
		}
	}
	do(t, nil, "health", "--server", server, "--live").wants(t, exitOK).prints(t, "alive")
	for _, out := range []string{"text", "json"} { // the poller may not have begun when it says ready
		for exitOK != do(t, nil, "health", "--server", server, "-o", out).code {
		}
	}
	do(t, []string{"TIMER_SERVER=" + server + "/"}, "health").wants(t, exitOK).prints(t, "[+] forwarder")
	do(t, nil, "health", "--server", server, "-o", "json").wants(t, exitOK).prints(t, `"ready":true`)
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Process.Wait(); err != nil && !strings.Contains(err.Error(), exec.ErrWaitDelay.Error()) {
		t.Fatal(err)
	}
	do(t, nil, "health", "--server", server).wants(t, exitFailure).says(t, "connection refused")
}

// TestHealthOfAServiceThatIsNotReady and of what is none.
func TestHealthOfAServiceThatIsNotReady(t *testing.T) {
	t.Parallel()
	code := http.StatusServiceUnavailable
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = w.Write([]byte("not ready\n[-] broker failed\n"))
	}))
	defer server.Close()
	do(t, nil, "health", "--server", server.URL).wants(t, exitFailure).prints(t, "[-] broker failed").says(t, "is not ready")
	code = http.StatusNotFound
	do(t, nil, "health", "--server", server.URL).wants(t, exitFailure).says(t, "is that the service?")
	do(t, []string{"TIMER_HTTP_ADDR="}, "health").wants(t, exitUsage).says(t, "give --server")
}

// prints fails the test unless a text is in the output.
func (r ran) prints(t *testing.T, text string) ran {
	t.Helper()
	if !strings.Contains(r.stdout, text) {
		t.Errorf("the output lacks %q:\n%s", text, r.stdout)
	}
	return r
}

// says fails the test unless a text is in the errors.
func (r ran) says(t *testing.T, text string) ran {
	t.Helper()
	if !strings.Contains(r.stderr, text) {
		t.Errorf("the errors lack %q:\n%s", text, r.stderr)
	}
	return r
}
