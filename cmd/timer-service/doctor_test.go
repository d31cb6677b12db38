package main

import (
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker/nats/embedded"
)

// TestDoctorOfFiveMistakes has a setting that is wrong, a password that others may read,
// a database that others may read, an address for HTTP that is in use, and a
// stream that may lose messages. Each is found beside the others.
func TestDoctorOfFiveMistakes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, db := filepath.Join(dir, "timers.yaml"), filepath.Join(dir, "timers.db")
	do(t, []string{"TIMER_DB_PATH=" + db}, "migrate").wants(t, exitOK)
	for name, text := range map[string]string{file: "http_token: hunter2\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{file, db} {
		if err := os.Chmod(name, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	addr := other.Listener.Addr().String()
	nats, err := embedded.Start(embedded.Options{StoreDir: t.TempDir()}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nats.Shutdown)
	server := nats.URL()
	conn, err := natsgo.Connect(server, natsgo.Timeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "svc", Subjects: []string{"svc.>", "timer.commands"}, Discard: jetstream.DiscardOld, MaxBytes: 1 << 20, MaxAge: 48 * time.Hour, Duplicates: 2 * time.Minute,
	}); err != nil {
		t.Fatal(err)
	}
	environ := []string{"TIMER_BATCH_SIZE=many", "TIMER_DB_PATH=" + db, "TIMER_HTTP_ADDR=" + addr, "TIMER_BROKER_URL=" + server}
	got := do(t, environ, "doctor", "--config", file).wants(t, exitFailure)
	text := got.stdout + got.stderr
	for _, want := range []string{
		`batch_size="many" (TIMER_BATCH_SIZE)`, "another program listens on " + addr, "others may read or write " + db, "others may read or write " + file, "discard is old with a limit",
		"timer-service: 5 bad, ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "hunter2") {
		t.Error("the password shows")
	}
	for line := range strings.Lines(do(t, environ, "doctor", "--config", file, "-o", "json").wants(t, exitFailure).stdout) {
		var f struct{ State, Check, Text, Do string }
		if err := json.Unmarshal([]byte(line), &f); err != nil || f.Check == "" || f.Text == "" || (f.Do == "") != (f.State == "ok") {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// TestDoctorOfNothing looks at a machine on which no service has run.
func TestDoctorOfNothing(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.3:0") // where no other test listens
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	do(t, []string{"TIMER_DB_PATH=" + filepath.Join(t.TempDir(), "timers.db"), "TIMER_HTTP_ADDR=" + addr}, "doctor").wants(t, exitOK).
		prints(t, "the service makes it when it starts").prints(t, addr+" is free")
}

// TestDoctorWithoutSettings names a file that is absent: nothing else can be known.
func TestDoctorWithoutSettings(t *testing.T) {
	t.Parallel()
	do(t, nil, "doctor", "--config", "/nowhere/timers.yaml").wants(t, exitFailure).prints(t, "/nowhere/timers.yaml").prints(t, "correct the settings first")
}
