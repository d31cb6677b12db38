package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEveryMutantApplies(t *testing.T) {
	t.Parallel()
	names := make(map[string]bool)
	for _, m := range all() {
		t.Run(m.name, func(t *testing.T) {
			if names[m.name] {
				t.Error("the name is taken")
			}
			names[m.name] = true
			if m.breaks == "" || m.test.pkg == "" || m.test.names == "" || len(m.edits) == 0 {
				t.Error("it does not say what it changes, what breaks and which test sees it")
			}
			for _, e := range m.edits {
				text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(e.file)))
				if err != nil {
					t.Fatal(err)
				}
				if err := e.check(string(text)); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestEditChangesOnePlaceAndIsTakenBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "a.go")
	if err := os.WriteFile(name, []byte("one two two"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, old := range []string{"two", "three"} {
		if _, err := (edit{"a.go", old, "x"}).apply(dir); err == nil {
			t.Errorf("replaced %q, which is not there exactly once", old)
		}
	}
	restore, err := edit{"a.go", "one", "1"}.apply(dir)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(name); err != nil || string(text) != "1 two two" {
		t.Errorf("%q, %v", text, err)
	}
	if err := restore(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(name); err != nil || string(text) != "one two two" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestOnlyATestIsAFailure(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, output string
		want         result
		wantErr      bool
	}{
		{"green", `{"Action":"pass","Test":"TestA"}{"Action":"pass"}`, result{passed: 1}, false},
		{"red", `{"Action":"pass","Test":"TestA"}{"Action":"fail","Test":"TestB/case"}{"Action":"fail","Test":"TestB"}{"Action":"fail"}`, result{1, "TestB/case"}, false},
		{"hangs", `{"Action":"output","Output":"panic: test timed out after 1m0s\n"}{"Action":"output","Output":"\t\tTestC (1m0s)\n"}{"Action":"fail"}`, result{0, "TestC (1m0s)"}, false},
		{"red without a test", `{"Action":"fail"}`, result{}, false},
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
