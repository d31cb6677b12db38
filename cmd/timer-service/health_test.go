package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestHealthOfAService asks one that runs, and one that does not run.
func TestHealthOfAService(t *testing.T) {
	t.Parallel()
	server, _ := answering(t)
	do(t, nil, "health", "--server", server, "--live").wants(t, exitOK).prints(t, "alive")
	for exitOK != do(t, nil, "health", "--server", server).code { // the poller may not have begun when it says ready
	}
	do(t, []string{"TIMER_SERVER=" + server + "/"}, "health").wants(t, exitOK).prints(t, "[+] forwarder")
	do(t, nil, "health", "--server", server, "-o", "json").wants(t, exitOK).prints(t, `"ready":true`)
	do(t, nil, "health", "--server", "http://127.0.0.1:1").wants(t, exitFailure).says(t, "connection refused")
}

// TestHealthOfAServiceThatIsNotReady, and of another server.
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
