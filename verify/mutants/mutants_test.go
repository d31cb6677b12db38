package main

import (
	"os"
	"path/filepath"
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

func TestChanges(t *testing.T) {
	t.Parallel()
	const code = `package p

func (s *S) Do(ctx C) error {
	x := 1
	if ok := s.is(x); ok && s.open {
		s.log.Warn(
			"open",
		)
	}
	err := s.put(ctx, x)
	return err
}

func other() { warn() }
`
	tests := []struct {
		name   string
		change change
		want   string // a part of the result
	}{
		{"skip", in("", "S.Do", skip("Warn")), "\t\t_ = func() { s.log.Warn(\n"},
		{"skip, in all functions", in("", "", skip("warn")), "func other() { _ = func() { warn() } }"},
		{"instead", in("", "S.Do", instead("put", "wrap($)")), "err := wrap(s.put(ctx, x))"},
		{"pretend", in("", "S.Do", pretend("s.put")), "err := func() error { return nil; return s.put(ctx, x) }()"},
		{"ignore", in("", "S.Do", ignore("put")), "err := func() error { _ = s.put(ctx, x); return nil }()"},
		{"swap", in("", "S.Do", swap("s . put( ctx,x )", "nil")), "err := nil"},
		{"never", in("", "S.Do", never("ok")), "; false && (ok && s.open) {"},
		{"always", in("", "S.Do", always("open")), "; true || (ok && s.open) {"},
		{"value", in("", "S.Do", value("x", "2")), "x := 2\n"},
		{"first", in("", "S.Do", first("return nil")), "error { return nil;\n"},
		{"before", in("", "S.Do", before("put", "s.get()")), "\ts.get(); err := s.put(ctx, x)"},
		{"all methods", in("", "S.*", first("return nil")), "error { return nil;\n"},
		{"two functions of one name", in("", "Do", first("return nil")), ""},
		{"another function", in("", "other", skip("Warn")), ""},
		{"a part of a name", in("", "S.Do", skip("arn")), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			name := filepath.Join(dir, "code.go")
			if err := os.WriteFile(name, []byte(code), 0o600); err != nil {
				t.Fatal(err)
			}
			files, err := tt.change.rewrite(dir)
			if tt.want == "" {
				if err == nil {
					t.Errorf("it applies: %s", files[name])
				}
				return
			}
			if err != nil || !strings.Contains(string(files[name]), tt.want) {
				t.Errorf("%v\n%s", err, files[name])
			}
		})
	}
}

func TestQueriesAreChangedWhateverTheirSpaces(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "a.sql")
	if err := os.WriteFile(name, []byte("SELECT a\n  FROM b\n WHERE c"), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := query("a.sql", "FROM b WHERE c", "FROM $1").rewrite(dir)
	if err != nil || string(files[name]) != "SELECT a\n  FROM $1" {
		t.Errorf("%q, %v", files[name], err)
	}
	if _, err := query("a.sql", "FROM c", "FROM d").rewrite(dir); err == nil {
		t.Error("changed what is not there")
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
