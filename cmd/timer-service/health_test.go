package main

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/internal/testcert"
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

// TestVerbsNoticeWhoAnswers on the address for HTTP: another program, or the service of another
// database. One that is named with --server may have any.
func TestVerbsNoticeWhoAnswers(t *testing.T) {
	t.Parallel()
	server, local := answering(t)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("another program got the token")
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<p>ready\n"))
	}))
	t.Cleanup(web.Close)
	made := filepath.Join(t.TempDir(), "made.db")
	do(t, nil, "migrate", "--db-path", made).wants(t, exitOK)
	on := func(url string) string { return "TIMER_HTTP_ADDR=" + strings.TrimPrefix(url, "http://") }
	for name, test := range map[string]struct {
		environ []string
		says    string // empty: it is the service
	}{
		"another program":             {[]string{on(web.URL), "TIMER_DB_PATH=" + made}, web.URL + " is another program, which answers 200 OK as text/html"},
		"of another database":         {[]string{on(server), "TIMER_DB_PATH=" + made}, server + " is a timer service with the database "},
		"of a database where none is": {[]string{on(server), "TIMER_DB_PATH=" + made + ".none"}, "made.db.none is not made yet"},
		"of this database":            {[]string{on(server), local[0], "TIMER_HTTP_SOCKET=/nowhere/sock"}, ""},
	} {
		environ := append(test.environ, "TIMER_HTTP_TOKEN=hunter2-hunter2-hunter2")
		if test.says == "" {
			for exitOK != do(t, environ, "health").code { // the poller may not have begun when it says ready
			}
			do(t, environ, "doctor").prints(t, "a timer service answers on")
			continue
		}
		do(t, environ, "health").wants(t, exitFailure).says(t, test.says)
		do(t, environ, "health", "--live", "-o", "json").wants(t, exitFailure).says(t, test.says)
		if found := do(t, environ, "doctor"); !strings.Contains(found.stdout, test.says) {
			t.Errorf("%s: doctor:\n%s", name, found.stdout)
		}
	}
	do(t, nil, "health", "--server", web.URL).wants(t, exitFailure).says(t, "another program answers, with 200 OK as text/html")
	for _, verb := range []string{"stats", "list acme", "dlq list -o json", "parked discard 1", "pause"} {
		do(t, nil, append(strings.Fields(verb), "--server", web.URL)...).wants(t, exitFailure).says(t, "is that a timer service?")
	}
	do(t, []string{"TIMER_DB_PATH=" + made}, "health", "--server", server).wants(t, exitOK)
}

// TestVerbsOnPostgresNoticeWhoAnswers, since they have no socket: verbs that read go to the
// database itself.
func TestVerbsOnPostgresNoticeWhoAnswers(t *testing.T) {
	t.Parallel()
	server, _ := answering(t)
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	url := pgtest.URL(t)
	do(t, []string{"TIMER_DB_URL=" + url}, "migrate").wants(t, exitOK)
	for at, says := range map[string]string{
		server:  server + " is a timer service with the database ",
		web.URL: web.URL + " is another program, which answers 404 Not Found as text/plain",
	} {
		environ := []string{"TIMER_DB_URL=" + url, "TIMER_HTTP_ADDR=" + strings.TrimPrefix(at, "http://")}
		do(t, environ, "get", "acme", "a").wants(t, exitNotFound).says(t, says).says(t, "the database is read without a service")
		do(t, environ, "stats").wants(t, exitOK).says(t, says)
		do(t, environ, "list", "acme").wants(t, exitOK).says(t, says)
		do(t, environ, "health").wants(t, exitFailure).says(t, says)
		do(t, environ, "pause").wants(t, exitFailure).says(t, says)
		if found := do(t, environ, "doctor"); !strings.Contains(found.stdout, says) {
			t.Errorf("doctor:\n%s", found.stdout)
		}
	}
}

// TestHTTPOverTLS serves HTTPS. Verbs of this machine ask it with the certificate of the
// configuration, others with an authority that the system trusts. Another program on the
// address is asked nothing.
func TestHTTPOverTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, _ := testcert.New(t)
	testcert.Write(t, dir, cert)
	const token = "0123456789abcdef"
	environ := []string{
		"TIMER_HTTP_TLS_CERT=" + filepath.Join(dir, "cert.pem"), "TIMER_HTTP_TLS_KEY=" + filepath.Join(dir, "key.pem"),
		"TIMER_HTTP_TOKEN=" + token, "TIMER_HTTP_SOCKET=/nowhere/timers.sock",
	}
	server, local := answering(t, environ...)
	if !strings.HasPrefix(server, "https://127.0.0.1:") {
		t.Fatalf("HTTP is on %s", server)
	}
	address := strings.TrimPrefix(server, "https://")
	if answer, err := http.Get("http://" + address + "/livez"); err == nil {
		if answer.Body.Close(); answer.StatusCode != 400 {
			t.Errorf("without TLS: %d", answer.StatusCode)
		}
	}
	local = append(local, append(environ, "TIMER_HTTP_ADDR="+address)...)
	do(t, local, "health").wants(t, exitOK).prints(t, "[+] store")
	do(t, local, "doctor").prints(t, "a timer service answers on "+address)
	do(t, []string{"TIMER_HTTP_TOKEN=" + token}, "stats", "--server", server).wants(t, exitFailure).says(t, "certificate")
	p := startIn(t, []string{"TIMER_HTTP_TOKEN=" + token, "SSL_CERT_FILE=" + filepath.Join(dir, "cert.pem")}, "main", "stats", "--server", server)
	p.ends(t).wants(t, exitOK) // with the authority

	other := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("another program was asked for %s", r.URL) }))
	other.Config.ErrorLog = log.New(io.Discard, "", 0)
	other.StartTLS()
	t.Cleanup(other.Close)
	local[len(local)-1] = "TIMER_HTTP_ADDR=" + strings.TrimPrefix(other.URL, "https://")
	do(t, local, "health").wants(t, exitFailure).says(t, "not the one of http_tls_cert")
	do(t, append(local, "TIMER_DB_URL=postgres://localhost:1/none", "TIMER_HTTP_SOCKET="), "pause").wants(t, exitFailure).says(t, "not the one of http_tls_cert")

	must(t, os.Remove(filepath.Join(dir, "key.pem")))
	do(t, append(environ, "TIMER_DB_PATH="+filepath.Join(dir, "timers.db"), "TIMER_NATS_PORT=0"), "serve").wants(t, exitFailure).says(t, "http_tls_cert and http_tls_key")
}
