package main

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestEveryMutantApplies fails when code that a mutant describes is gone.
func TestEveryMutantApplies(t *testing.T) {
	t.Parallel()
	names := make(map[string]bool)
	for _, m := range all() {
		t.Run(m.String(), func(t *testing.T) {
			if names[m.name] {
				t.Error("the name is taken")
			}
			names[m.name] = true
			if m.promise == "" || m.name == "" || m.test.pkg == "" || m.test.names == "" || len(m.changes) == 0 {
				t.Error("it does not say what breaks, what it changes and which test finds it")
			}
			for _, c := range m.changes {
				if _, err := c.rewrite("../.."); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestEachPromiseHasAMutant reads the promises of the page that shows them with their tests. A
// promise is broken by a mutant of its own, in a package whose tests the page names.
func TestEachPromiseHasAMutant(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/reliability.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| (I\d+|Stop) \|.*$`).FindAllStringSubmatch(string(page), -1)
	if len(rows) < 20 {
		t.Fatalf("the page has %d promises", len(rows))
	}
	for _, row := range rows {
		if !slices.ContainsFunc(all(), func(m mutant) bool {
			// A suite stands next to the packages that run it.
			folders := []string{m.test.pkg + "/", path.Dir(m.test.pkg) + "/" + path.Base(path.Dir(m.test.pkg)) + "test/"}
			return m.promise == row[1] && slices.ContainsFunc(folders, func(f string) bool { return strings.Contains(row[0], "(../"+strings.TrimPrefix(f, "./")) })
		}) {
			t.Errorf("no mutant breaks %s where one of its tests would see it", row[1])
		}
	}
}

func TestMutantsAreUndone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "a.sql")
	if err := os.WriteFile(name, []byte("a b"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := mutant{changes: []change{query("a.sql", "a", "c"), query("a.sql", "b", "d"), query("a.sql", "none", "")}}
	restore, err := m.apply(dir)
	if text, _ := os.ReadFile(name); err == nil || string(text) != "c d" {
		t.Errorf("%q, %v", text, err)
	}
	if err := restore(); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(name); string(text) != "a b" {
		t.Errorf("%q", text)
	}
}

func TestOnlyATestIsAFailure(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, output string
		want         result
		wantErr      bool
	}{
		{"passes", `{"Action":"pass","Test":"TestA"}{"Action":"pass"}`, result{passed: 1}, false},
		{"fails", `{"Action":"pass","Test":"TestA"}{"Action":"fail","Test":"TestB/case"}{"Action":"fail","Test":"TestB"}{"Action":"fail"}`, result{1, "TestB/case"}, false},
		{"hangs", `{"Action":"output","Output":"panic: test timed out after 1m0s\n"}{"Action":"output","Output":"\t\tTestC (1m0s)\n"}{"Action":"fail"}`, result{0, "TestC (1m0s)"}, false},
		{"panics", `{"Action":"output","Test":"TestD","Output":"panic: oh\n"}{"Action":"fail"}`, result{0, "TestD panic: oh"}, false},
		{"fails without a test", `{"Action":"fail"}`, result{}, false},
		{"does not compile", `{"Action":"build-output","Output":"undefined: x"}{"Action":"build-fail"}{"Action":"fail"}`, result{}, true},
		{"no output of go test", `oh`, result{}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := read(strings.NewReader(tt.output))
			if got != tt.want || (err != nil) != tt.wantErr {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}
