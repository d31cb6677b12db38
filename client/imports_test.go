package client_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestBringsNoDriver keeps the dependencies of this package few: a host of it has a
// driver, a store or a server only if it wants one.
func TestBringsNoDriver(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	must(t, err)
	heavy := regexp.MustCompile(`timer-service/(app|service|store|broker/)|^go\.uber\.org/fx|^modernc\.org/|^github\.com/(nats-io|jackc|twmb|rabbitmq)/`)
	for path := range strings.Lines(string(out)) {
		if heavy.MatchString(path) {
			t.Errorf("it brings %s", strings.TrimSpace(path))
		}
	}
}

// TestDocsShowTheExamples compares the Go of the page with the examples, which compile
// and are tested.
func TestDocsShowTheExamples(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/clients.md")
	must(t, err)
	examples, err := os.ReadFile("example_test.go")
	must(t, err)
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 2 {
		t.Fatalf("the page shows %d times Go", len(blocks))
	}
	for _, block := range blocks {
		if !strings.Contains(unindented(string(examples)), unindented(block[1])) {
			t.Errorf("the page shows code that is no example:\n%s", block[1])
		}
	}
}

// unindented returns a text without the white space at the ends of its lines.
func unindented(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString(strings.TrimSpace(line) + "\n")
	}
	return out.String()
}
