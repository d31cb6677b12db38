package envelope_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// The golden files are written by hand, never by the encoder: a change that
// breaks one breaks consumers.
var (
	goldenDueAt    = time.Date(2030, time.January, 31, 11, 30, 0, 500e6, time.UTC)
	goldenKey      = timer.Key{TenantID: "acme", ServiceCallID: "order:42.pay"}
	goldenSchedule = timer.ScheduleTimer{
		Key:           goldenKey,
		Version:       timer.Version{TimestampMS: 1893456000000, CommandID: "0190b5a2-7c3e-7d4f-8a1b-2c3d4e5f6071"},
		DueAt:         goldenDueAt,
		CorrelationID: "req-7f3a",
	}
	goldenCancel = timer.CancelTimer{
		Key:     goldenKey,
		Version: timer.Version{TimestampMS: 1893456000001, CommandID: "0190b5a2-8000-7000-8000-000000000001"},
	}
	goldenReached = timer.DueTimeReached{
		Key:           goldenKey,
		CommandID:     "0190b5a2-7c3e-7d4f-8a1b-2c3d4e5f6071",
		DueAt:         goldenDueAt,
		ReachedAt:     goldenDueAt.Add(7 * time.Millisecond),
		CorrelationID: "req-7f3a",
	}
)

func golden(t testing.TB, name string) []byte {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func TestEncodesLikeGoldenFiles(t *testing.T) {
	t.Parallel()
	for name, got := range map[string][]byte{
		"schedule_timer.json":   envelope.Schedule(goldenSchedule),
		"cancel_timer.json":     envelope.Cancel(goldenCancel),
		"due_time_reached.json": envelope.Reached(goldenReached),
	} {
		if want := golden(t, name); !bytes.Equal(got, want) {
			t.Errorf("%s:\n got %s\nwant %s", name, got, want)
		}
	}
}

func TestDecodesGoldenFiles(t *testing.T) {
	t.Parallel()
	received := goldenReached
	received.ID = "01b977bc-34b4-729f-9d87-c0df30147718"
	received.CommandID = "" // not on the wire

	for name, want := range map[string]envelope.Message{
		"schedule_timer.json": {
			ID:            "0190b5a2-7c3e-7d4f-8a1b-2c3d4e5f6071",
			Type:          "ScheduleTimer",
			TenantID:      "acme",
			AggregateID:   "order:42.pay",
			TimestampMS:   1893456000000,
			CorrelationID: "req-7f3a",
			Payload:       goldenSchedule,
		},
		"cancel_timer.json": {
			ID:          "0190b5a2-8000-7000-8000-000000000001",
			Type:        "CancelTimer",
			TenantID:    "acme",
			AggregateID: "order:42.pay",
			TimestampMS: 1893456000001,
			Payload:     goldenCancel,
		},
		"due_time_reached.json": {
			ID:            "01b977bc-34b4-729f-9d87-c0df30147718",
			Type:          "DueTimeReached",
			TenantID:      "acme",
			AggregateID:   "order:42.pay",
			TimestampMS:   1896089400507,
			CorrelationID: "req-7f3a",
			Payload:       received,
		},
	} {
		got, err := envelope.Decode(golden(t, name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// An attempt to publish an event again, after a crash, has the same fields but for
// the time of the attempt.
func TestAttemptsDifferInReachedAtAndTimestampOnly(t *testing.T) {
	t.Parallel()
	again := goldenReached
	again.ReachedAt = goldenReached.ReachedAt.Add(90 * time.Second)

	first := strings.NewReplacer("1896089400507", "1896089490507", "11:30:00.507", "11:31:30.507").
		Replace(string(golden(t, "due_time_reached.json")))
	if got := string(envelope.Reached(again)); got != first {
		t.Errorf("second attempt:\n got %s\nwant %s", got, first)
	}
}
