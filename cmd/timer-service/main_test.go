package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/internal/longtest"
)

// asProgram makes the test binary behave as the program, for tests of what only
// a process has: signals and exit codes.
const asProgram = "TIMER_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	switch os.Getenv(asProgram) {
	case "main":
		main()
	case "stuck":
		stuck()
	case "thief":
		thief()
	}
	_ = os.Setenv("COLUMNS", "100") // the width of help screens
	os.Exit(longtest.Waiting(m))
}

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A ran is the result of a run.
type ran struct {
	code           int
	stdout, stderr string
}

// do runs the program in this process, with only the given environment.
func do(t *testing.T, environ []string, args ...string) ran {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), args, environ, &stdout, &stderr)
	return ran{code, stdout.String(), stderr.String()}
}

// wants fails the test unless the run ended with the code.
func (r ran) wants(t *testing.T, code int) ran {
	t.Helper()
	if r.code != code {
		t.Fatalf("exit code %d, want %d\nstdout: %s\nstderr: %s", r.code, code, r.stdout, r.stderr)
	}
	return r
}

// prints fails the test unless texts are in the output.
func (r ran) prints(t *testing.T, texts ...string) ran {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(r.stdout, text) {
			t.Errorf("the output lacks %q:\n%s", text, r.stdout)
		}
	}
	return r
}

// says fails the test unless texts are in the errors.
func (r ran) says(t *testing.T, texts ...string) ran {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(r.stderr, text) {
			t.Errorf("the errors lack %q:\n%s", text, r.stderr)
		}
	}
	return r
}
