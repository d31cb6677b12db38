// Package kafka_test proves that the service speaks with clients of Kafka that
// are not written in Go: kafkajs, and kcat on librdkafka.
package kafka_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/event-service-agent/timer-service/app/service"
	"github.com/event-service-agent/timer-service/config"
)

func TestNodeSpeaksWithTheService(t *testing.T) {
	t.Parallel()
	node := need(t, "node")
	dir := install(t, need(t, "npm"))
	cmd := exec.CommandContext(t.Context(), node, "interop.js", serve(t))
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("node interop.js: %v\n%s", err, out)
	}
	t.Logf("node interop.js:\n%s", out)
}

// TestKcatSpeaksWithTheService schedules a timer, and reads its event, with a
// client on librdkafka.
func TestKcatSpeaksWithTheService(t *testing.T) {
	t.Parallel()
	kcat := need(t, "kcat")
	address := serve(t)
	now := time.Now()
	command := fmt.Sprintf(`{"id":"kcat-1","type":"ScheduleTimer","tenantId":"acme","aggregateId":"order-1","timestampMs":%d,`+
		`"payload":{"tenantId":"acme","serviceCallId":"order-1","dueAt":%q}}`, now.UnixMilli(), now.Add(time.Second).UTC().Format(time.RFC3339Nano))

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	write := exec.CommandContext(ctx, kcat, "-P", "-b", address, "-t", "timer.commands", "-K", "\t",
		"-H", "correlationId=req-7", "-X", "enable.idempotence=true", "-X", "acks=all", "-z", "zstd")
	write.Stdin = strings.NewReader("acme.order-1\t" + command + "\n")
	if out, err := write.CombinedOutput(); err != nil {
		t.Fatalf("kcat -P: %v\n%s", err, out)
	}

	read := exec.CommandContext(ctx, kcat, "-C", "-b", address, "-t", "service.events", "-o", "beginning", "-c", "1", "-q", "-J")
	out, err := read.Output()
	if err != nil {
		t.Fatalf("kcat -C: %v\n%s", err, out)
	}
	var got struct {
		Key     string   `json:"key"`
		Payload string   `json:"payload"`
		Headers []string `json:"headers"` // names and values in turns
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	headers := make(map[string]string)
	for i := 0; i+1 < len(got.Headers); i += 2 {
		headers[got.Headers[i]] = got.Headers[i+1]
	}
	if got.Key != "acme.order-1" || headers["type"] != "DueTimeReached" || headers["tenantId"] != "acme" ||
		headers["correlationId"] != "req-7" || !strings.Contains(got.Payload, `"serviceCallId":"order-1"`) {
		t.Errorf("kcat read %s", out)
	}
}

// need returns the path of a program.
func need(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		missing(t, "%s is not installed: %v", name, err)
	}
	return path
}

// missing skips the test, or fails it if $TIMER_TEST_REQUIRE is set.
func missing(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("TIMER_TEST_REQUIRE") != "" {
		t.Fatalf(format, args...)
	}
	t.Skipf("SKIPPED, NOTHING IS PROVEN: "+format, args...)
}

// install returns a folder with interop.js and what it imports.
func install(t *testing.T, npm string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"package.json", "package-lock.json", "interop.js"} {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), npm, "ci", "--no-audit", "--no-fund")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		missing(t, "npm ci: %v\n%s", err, out)
	}
	return dir
}

// serve runs Kafka and the service until the test ends, and returns the address
// of Kafka.
func serve(t *testing.T) string {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	address := c.ListenAddrs()[0]
	cfg, err := config.Load(nil, []string{
		"TIMER_DB_PATH=" + filepath.Join(t.TempDir(), "timers.db"), "TIMER_BROKER=kafka", "TIMER_BROKER_URL=" + address,
	}, "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	in, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- service.Run(ctx, cfg, out, slog.New(slog.DiscardHandler))
		out.Close()
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the service ended with %v", err)
		}
	})
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "ready") {
			go func() { _, _ = io.Copy(io.Discard, in) }() // a pipe blocks its writer
			return address
		}
	}
	t.Fatal("the service ended before it was ready")
	return ""
}
