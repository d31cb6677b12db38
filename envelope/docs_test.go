package envelope_test

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/source"
	"github.com/event-service-agent/timer-service/timer"
)

var jsonBlock = regexp.MustCompile("(?s)```json\n(.*?)```")

func contract(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../docs/messages.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// The commands of the examples are valid, and the service would send the
// events.
func TestExamplesOfTheDocsDecode(t *testing.T) {
	t.Parallel()
	var command timer.ScheduleTimer
	seen := map[string]bool{}
	for _, block := range jsonBlock.FindAllStringSubmatch(contract(t), -1) {
		m, err := envelope.Decode([]byte(block[1]))
		if err != nil {
			t.Errorf("%v in\n%s", err, block[1])
			continue
		}
		seen[m.Type] = true
		switch payload := m.Payload.(type) {
		case timer.ScheduleTimer:
			command = payload
		case timer.DueTimeReached:
			payload.CommandID = command.CommandID
			if want := envelope.EventID(payload); payload.ID != want {
				t.Errorf("id of the event is %s, want %s for the command above it", payload.ID, want)
			}
			var compact bytes.Buffer
			if err := json.Compact(&compact, []byte(block[1])); err != nil {
				t.Fatal(err)
			}
			if got := envelope.Reached(payload); !bytes.Equal(got, compact.Bytes()) {
				t.Errorf("event is not as the service sends it:\n got %s\nwant %s", &compact, got)
			}
		}
	}
	for _, kind := range []string{"ScheduleTimer", "DueTimeReached"} {
		if !seen[kind] {
			t.Errorf("there is no example of %s", kind)
		}
	}
}

func TestDocsNameEveryReasonAndHeader(t *testing.T) {
	t.Parallel()
	page := contract(t)
	reasons := source.Constants(t, "../timer", "Reason")
	headers := source.Constants(t, ".", "Header")
	if len(reasons) < 10 || len(headers) < 15 {
		t.Fatalf("found %d reasons and %d headers", len(reasons), len(headers))
	}
	for _, value := range append(reasons, headers...) {
		if !strings.Contains(page, "`"+value+"`") {
			t.Errorf("docs/messages.md does not name %s", value)
		}
	}
	known := map[string]bool{}
	for _, reason := range reasons {
		known[reason] = true
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z0-9]+_[a-z0-9_]+|refused)` \\|").FindAllStringSubmatch(page, -1) {
		if !known[row[1]] {
			t.Errorf("docs/messages.md explains %s, which is no reason", row[1])
		}
	}
}
