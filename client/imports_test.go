package client_test

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestBringsFewModules keeps what a program gets with this package: a host of it has a
// driver, a store or a server only if it wants one.
func TestBringsFewModules(t *testing.T) {
	t.Parallel()
	const own, most = "github.com/event-service-agent/timer-service", 15
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}} {{.Module.Path}}{{end}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../docs/clients.md")
	if err != nil {
		t.Fatal(err)
	}
	var packages, modules []string
	for line := range strings.Lines(string(out)) {
		path, module, _ := strings.Cut(strings.TrimSpace(line), " ")
		if ours, ok := strings.CutPrefix(path, own+"/"); ok {
			packages = append(packages, ours)
			continue
		}
		modules = append(modules, module)
	}
	slices.Sort(modules)
	modules = slices.Compact(modules)
	slices.Sort(packages)
	if want := []string{"broker", "client", "envelope", "internal/pause", "internal/retry", "timer"}; !slices.Equal(packages, want) {
		t.Errorf("of ours it imports %v, want %v", packages, want)
	}
	if len(modules) == 0 || len(modules) > most {
		t.Errorf("it brings %d modules, more than %d: %v", len(modules), most, modules)
	}
	for _, module := range modules {
		if !strings.Contains(string(page), "`"+module+"`") {
			t.Errorf("docs/clients.md does not name %s, which this package brings", module)
		}
	}
}

// TestDocsShowTheExamples compares the Go of the page with the examples, which compile
// and are tested.
func TestDocsShowTheExamples(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/clients.md")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 2 {
		t.Fatalf("the page shows %d times Go", len(blocks))
	}
	for _, block := range blocks {
		if !strings.Contains(unindented(string(examples)), unindented(block[1])) {
			t.Errorf("the page shows what is no example:\n%s", block[1])
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
