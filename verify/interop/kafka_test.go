package interop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

func TestNodeSpeaksWithTheServiceOverKafka(t *testing.T) {
	t.Parallel()
	node := need(t, "node")
	runNode(t, node, install(t, need(t, "npm"), "kafka"), serveKafka(t))
}

// TestKcatSpeaksWithTheService schedules a timer, and reads its event, with a
// client on librdkafka.
func TestKcatSpeaksWithTheService(t *testing.T) {
	t.Parallel()
	kcat := need(t, "kcat")
	address := serveKafka(t)
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

// serveKafka runs Kafka and the service until the test ends, and returns the
// address of Kafka.
func serveKafka(t *testing.T, settings ...string) string {
	t.Helper()
	return serveKafkaIn(t, t.TempDir(), settings...)
}

// serveKafkaIn is serveKafka with a folder for the database.
func serveKafkaIn(t *testing.T, dir string, settings ...string) string {
	t.Helper()
	address := kafkaBroker(t)
	serveIn(t, dir, append(settings, "TIMER_BROKER=kafka", "TIMER_BROKER_URL="+address)...)
	return address
}

// kafkaBroker runs Kafka until the test ends, and returns its address.
func kafkaBroker(t *testing.T) string {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c.ListenAddrs()[0]
}
