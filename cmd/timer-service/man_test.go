package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/config"
)

// There is a page of the program and of each verb, and roff has nothing to say against them.
func TestManPages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	do(t, []string{"TIMER_BATCH_SIZE=many"}, "man", dir).wants(t, exitOK)
	page := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, name+".1"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	all := page(program)
	for _, verb := range verbs {
		text := page(program + "-" + strings.ReplaceAll(verb, " ", "-"))
		for _, section := range []string{"NAME", "SYNOPSIS", "DESCRIPTION", "EXAMPLES", "GLOBAL OPTIONS", "SEE ALSO"} {
			if !strings.Contains(text, "\n.SH "+section+"\n") {
				t.Errorf("page of %s has no section %s", verb, section)
			}
		}
		if !strings.Contains(all, ".TP\n\\fB"+roff(verb)+"\\fR\n") {
			t.Errorf("the page of the program does not name %s", verb)
		}
	}
	for _, s := range config.Settings() {
		if !strings.Contains(all, roff("--"+s.Flag+"=")) {
			t.Errorf("the page of the program does not name --%s", s.Flag)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil {
		t.Fatal(err)
	}
	mandoc, err := exec.LookPath("mandoc")
	if err != nil {
		t.Skip("no mandoc here: the pages are not linted")
	}
	out, err := exec.CommandContext(t.Context(), mandoc, append([]string{"-T", "lint", "-W", "warning"}, files...)...).CombinedOutput()
	if err != nil {
		t.Errorf("mandoc: %v\n%s", err, out)
	}
}

func TestRoffTakesNothingAsItsOwn(t *testing.T) {
	t.Parallel()
	if got, want := roff("a\\b --c\n.d 'e'"), "a\\eb \\-\\-c\n\\&.d \\(aqe\\(aq"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
