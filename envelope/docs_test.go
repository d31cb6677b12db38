package envelope_test

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/envelope"
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

// The commands of the examples are valid, and the events are those that the
// service would send.
func TestExamplesOfTheDocsDecode(t *testing.T) {
	t.Parallel()
	var command timer.ScheduleTimer
	seen, cloudEvents := map[string]bool{}, false
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
			format := envelope.Format{CloudEvents: strings.Contains(block[1], "specversion")}
			cloudEvents = cloudEvents || format.CloudEvents
			if got := format.Reached(payload); !bytes.Equal(got, compact.Bytes()) {
				t.Errorf("event is not as the service sends it:\n got %s\nwant %s", &compact, got)
			}
		}
	}
	if !cloudEvents {
		t.Error("there is no example of an event that is a CloudEvent")
	}
	for _, kind := range []string{"ScheduleTimer", "CancelTimer", "DueTimeReached"} {
		if !seen[kind] {
			t.Errorf("there is no example of %s", kind)
		}
	}
}

func TestDocsNameEveryReasonAndHeader(t *testing.T) {
	t.Parallel()
	page := contract(t)
	reasons := constants(t, "../timer", "Reason")
	headers := constants(t, ".", "Header")
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

// constants returns the values of a package's string constants whose names
// begin with the prefix.
func constants(t *testing.T, dir, prefix string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || !strings.HasPrefix(spec.Names[0].Name, prefix) || len(spec.Values) != 1 {
				return true
			}
			if literal, ok := spec.Values[0].(*ast.BasicLit); ok && literal.Kind == token.STRING {
				value, err := strconv.Unquote(literal.Value)
				if err != nil {
					t.Fatal(err)
				}
				values = append(values, value)
			}
			return true
		})
	}
	return values
}
