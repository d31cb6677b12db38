package crash

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/verify/crash/history"
)

// TestMain makes the test binary the broker and the forgetful service, too.
func TestMain(m *testing.M) {
	BrokerMain()
	if os.Getenv(forgetfulEnv) == "" || len(os.Args) < 2 || os.Args[1] != "serve" {
		os.Exit(m.Run())
	}
	fmt.Fprintln(os.Stderr, forgetful())
	os.Exit(1)
}

// logRun logs its report and keeps its data among the test's files.
func logRun(t *testing.T, opt Options) (Report, error) {
	t.Helper()
	opt.Dir, opt.Progress, opt.Keep = t.ArtifactDir(), t.Output(), true
	report, err := Run(t.Context(), opt)
	var text bytes.Buffer
	report.Write(&text)
	t.Log(text.String())
	return report, err
}

// script returns the path of a program that does what a line of shell says.
func script(t *testing.T, line string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "service")
	must(t, os.WriteFile(path, []byte("#!/bin/sh\n"+line+"\n"), 0o700))
	return path
}

// careless returns a service that keeps nothing in its database. It has a verb that makes a
// copy of that.
func careless(t *testing.T, how string) string {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	return script(t, `if [ "$1" = backup ]; then echo copy > "$2"; exit; fi
export `+forgetfulEnv+"="+how+"; exec "+strconv.Quote(self)+` "$@"`)
}

// A test that finds no violation in a broken service proves nothing.
func TestConvictsABrokenService(t *testing.T) {
	if testing.Short() {
		t.Skip("kills processes for some seconds: not with -short")
	}
	t.Parallel()
	for _, tt := range []struct {
		mode   Mode
		how    string
		kills  int
		guilty []history.Rule
	}{
		{Kill, "yes", 3, []history.Rule{history.Lost, history.NoDeadLetter, history.Unclean}},
		{Wipe, "yes", 2, []history.Rule{history.Lost}},
		{Rollback, "yes", 2, []history.Rule{history.Lost}},
		{EmptyBroker, "yes", 2, []history.Rule{history.Lost}},
		{Wipe, again, 4, []history.Rule{history.Refired}},
		{Rollback, again, 4, []history.Rule{history.Refired}},
	} {
		t.Run(string(tt.mode)+" "+tt.how, func(t *testing.T) {
			t.Parallel()
			r, err := logRun(t, Options{Bin: careless(t, tt.how), Mode: tt.mode, Kills: tt.kills, Seed: 1, Settle: 5 * time.Second})
			must(t, err)
			for _, rule := range tt.guilty {
				if r.Count(rule) == 0 {
					t.Errorf("nothing is %s", rule)
				}
			}
			if r.Fired == 0 || r.Ready == 0 || r.Kills != tt.kills {
				t.Errorf("%d timers fired in %d lives with %d kills, of which %d got ready", r.Fired, r.Lives, r.Kills, r.Ready)
			}
			if tt.mode == EmptyBroker && (r.Gone == 0 || r.Acked+r.Gone != r.Sent) {
				t.Errorf("of %d messages the broker has %d and lost %d", r.Sent, r.Acked, r.Gone)
			}
			// It may fire for an invalid message, which is an invention.
			for _, rule := range []history.Rule{history.Early, history.WrongTopic, history.Malformed, history.Died} {
				if r.Count(rule) > 0 {
					t.Errorf("%d are %s, of which it is not guilty", r.Count(rule), rule)
				}
			}
		})
	}
}

func TestReportsAServiceThatEndsByItself(t *testing.T) {
	t.Parallel()
	bin := script(t, "echo sorry >&2; exit 3")
	report, err := Run(t.Context(), Options{Bin: bin, Dir: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("error %v, want one with exit status 3", err)
	}
	if report.Count(history.Died) != maxDeaths+1 {
		t.Errorf("%d deaths, want %d", report.Count(history.Died), maxDeaths+1)
	}
	text, err := os.ReadFile(filepath.Join(report.Dir, "service.log"))
	if err != nil || strings.Count(string(text), "sorry") != maxDeaths+1 {
		t.Errorf("the log of the service says %q, %v", text, err)
	}
}

func TestStopsWhenToldTo(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	report, err := Run(ctx, Options{Bin: "/bin/true", Dir: t.TempDir()})
	if err == nil || report.Error == "" {
		t.Errorf("error %v of a run that was canceled, in the report %q", err, report.Error)
	}
	var text bytes.Buffer
	report.Write(&text)
	if strings.Contains(text.String(), "no violation") {
		t.Error("the report of a run that was canceled says that nothing is wrong")
	}
}
