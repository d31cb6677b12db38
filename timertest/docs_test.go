package timertest_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestDocsShowTheExample compares the Go of docs/testing.md with the examples.
func TestDocsShowTheExample(t *testing.T) {
	t.Parallel()
	unindented := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return regexp.MustCompile(`(?m)^[ \t]+`).ReplaceAllString(string(text), "")
	}
	example, page := unindented("example_test.go")+unindented("postgres_test.go"), unindented("../docs/testing.md")
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(page, -1)
	if len(blocks) < 2 {
		t.Errorf("the page shows %d blocks of Go", len(blocks))
	}
	for _, block := range blocks {
		if !strings.Contains(example, block[1]) {
			t.Errorf("the page shows what is in no example:\n%s", block[1])
		}
	}
}
