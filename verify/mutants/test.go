package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// A test is a run of go test.
type test struct {
	pkg   string // such as ./poller
	names string // which tests, as for -run
	flags string // of the test binary; may be empty
}

func (t test) String() string { return strings.Join(t.args(), " ") }

// args returns the command, which a reader can repeat.
func (t test) args() []string {
	return append([]string{"go", "test", t.pkg, "-count=1", "-run=" + t.names}, strings.Fields(t.flags)...)
}

// A result is the outcome of a test run.
type result struct {
	passed int    // tests that passed
	failed string // the first test that failed; empty if none did
}

const (
	runLimit  = 5 * time.Minute // of a test run, compilation included
	testLimit = "-timeout=60s"  // of the tests alone: one that hangs has failed, and is named
)

// run runs the test in dir. An error means that there is no outcome: the code
// does not compile, or the time was over.
func (t test) run(ctx context.Context, dir string) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	args := append(t.args()[1:], testLimit, "-json", "-vet=off")
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS=-mod=readonly", "GOWORK=off")
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	runErr := cmd.Run()
	if err := ctx.Err(); err != nil {
		return result{}, fmt.Errorf("no result within %v: %w", runLimit, err)
	}
	r, err := read(&stdout)
	switch {
	case err != nil:
		return result{}, errors.Join(err, errors.New(strings.TrimSpace(stderr.String())))
	case runErr != nil && r.failed == "":
		return result{}, fmt.Errorf("%w, but no test failed: %s", runErr, strings.TrimSpace(stderr.String()))
	}
	return r, nil
}

// read reads the events of go test -json.
func read(in io.Reader) (r result, err error) {
	var build strings.Builder
	hung := false
	for d := json.NewDecoder(in); ; {
		var event struct{ Action, Test, Output string }
		switch err := d.Decode(&event); {
		case errors.Is(err, io.EOF):
			if build.Len() > 0 {
				return result{}, fmt.Errorf("does not compile: %s", strings.TrimSpace(build.String()))
			}
			return r, nil
		case err != nil:
			return result{}, fmt.Errorf("read the output of go test: %w", err)
		}
		switch {
		case event.Action == "build-output":
			build.WriteString(event.Output)
		case event.Action == "pass" && event.Test != "":
			r.passed++
		case event.Action == "fail" && event.Test != "" && r.failed == "":
			r.failed = event.Test
		case strings.HasPrefix(event.Output, "panic: test timed out"):
			hung = true
		case strings.HasPrefix(event.Output, "panic: ") && r.failed == "":
			r.failed = strings.TrimSpace(event.Test + " " + event.Output)
		case hung && r.failed == "" && strings.HasPrefix(event.Output, "\t\tTest"): // of the tests that were running
			r.failed = strings.TrimSpace(event.Output)
		}
	}
}
