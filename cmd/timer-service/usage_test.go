package main

import (
	"errors"
	"strings"
	"testing"
)

// A mistake of usage is exit code 2, nothing on stdout, and a message that
// names the mistake and the fix.
func TestUsageMistakes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		args []string
		want []string // on stderr
	}{
		{"unknown verb", []string{"schedul"}, []string{"schedul", `did you mean "schedule"`, "timer-service --help"}},
		{"flag without verb", []string{"-o", "json"}, []string{"expected one of", `"serve"`}},
		{"unknown flag", []string{"schedule", "acme", "x", "--inn", "3s"}, []string{"--inn", "did you mean", `"--in"`, "schedule --help"}},
		{"unknown setting", []string{"serve", "--db-pth", "x"}, []string{"--db-pth", "did you mean", "--db-path"}},
		{"flag without value", []string{"serve", "--db-path"}, []string{"--db-path: needs a value"}},
		{"setting with a wrong value", []string{"serve", "--batch-size", "many"}, []string{`batch_size="many" (--batch-size)`, "whole number"}},
		{"too many arguments", []string{"get", "acme", "x", "y"}, []string{"unexpected argument y"}},
		{"invalid tenant", []string{"schedule", "_acme", "x", "--in", "3s"}, []string{`tenantId "_acme"`, "A-Z a-z 0-9 _ -"}},
		{"invalid service call", []string{"cancel", "acme", "a b"}, []string{`serviceCallId "a b"`, "A-Z a-z 0-9 _ . : -"}},
		{"no time", []string{"schedule", "acme", "x"}, []string{"--in 3s", "--at 2030-01-31T12:00:00Z"}},
		{"two times", []string{"schedule", "acme", "x", "--in", "3s", "--at", "2030-01-01T00:00:00Z"}, []string{"--in and --at can't be used together"}},
		{"a timer of no tenant", []string{"schedule", "--in", "3s"}, []string{"<tenant>", "schedule --help"}},
		{"unknown state", []string{"list", "acme", "--state", "Done"}, []string{"--state", `"Scheduled","Reached","Expired","Canceled"`, "Done"}},
		{"misspelled state", []string{"list", "acme", "--state", "scheduled"}, []string{`did you mean "Scheduled"?`}},
		{"misspelled reason", []string{"dlq", "list", "--reason", "beyond"}, []string{`did you mean "beyond_horizon"?`}},
		{"a flag as a value", []string{"schedule", "acme", "x", "--in", "--wait"}, []string{"--in: needs a value"}},
		{"time without zone", []string{"schedule", "acme", "x", "--at", "2030-01-01T00:00:00"}, []string{"--at", "2030-01-01T00:00:00", "no zone", "Z or an offset"}},
		{"time that is none", []string{"schedule", "acme", "x", "--at", "tomorrow"}, []string{"--at", "tomorrow", "RFC 3339"}},
		{"data that are no JSON", []string{"schedule", "acme", "x", "--in", "3s", "--data", "{a:1}"}, []string{"--data is not one JSON value"}},
		{"duration that is none", []string{"schedule", "acme", "x", "--in", "soon"}, []string{"--in", "soon", "3s, 90m or 7d"}},
		{"list without a tenant", []string{"list"}, []string{"tenant", "--correlation"}},
		{"state of a correlation", []string{"list", "--correlation", "r", "--state", "Reached"}, []string{"--state goes with a tenant"}},
		{"counts of one and of all", []string{"stats", "acme", "--tenants"}, []string{"exclude each other"}},
		{"dead letters without a verb", []string{"dlq"}, []string{"expected one of", `"list"`, "dlq --help"}},
		{"replay of nothing named", []string{"dlq", "replay"}, []string{"ids, --tenant, --reason, --correlation or --since, or all with --all", "dlq replay --help"}},
		{"replay of all and one", []string{"dlq", "replay", "x", "--all"}, []string{"ids and --all exclude each other"}},
		{"dead letters since nonsense", []string{"dlq", "list", "--since", "soon"}, []string{"--since", "soon", "90m or 7d"}},
		{"dead letters for no reason", []string{"dlq", "list", "--reason", "none"}, []string{"--reason", `"beyond_horizon"`, `"none"`}},
		{"tail of something else", []string{"tail", "timers"}, []string{`"commands","events","receipts","dlq"`, "timers"}},
		{"tail of no tenant", []string{"tail", "dlq", "--tenant", "*"}, []string{"--tenant", `"*"`}},
		{"publish a file that is absent", []string{"publish", "/nowhere/commands.jsonl"}, []string{"/nowhere/commands.jsonl", "no such file"}},
		{"publish at no rate", []string{"publish", "-", "--rate=-1"}, []string{"--rate: must not be negative"}},
		{"publish at no rate, apart", []string{"publish", "-", "--rate", "-1"}, []string{"--rate: must not be negative"}},
		{"tail fewer than none", []string{"tail", "events", "-n", "-1"}, []string{"-n", "must not be negative"}},
		{"a setting below none", []string{"serve", "--batch-size", "-1"}, []string{`batch_size="-1" (--batch-size)`, "whole number"}},
		{"fewer timers than none", []string{"list", "acme", "--limit", "-1"}, []string{"--limit must not be negative; 0 is all"}},
		{"fewer dead letters than none", []string{"dlq", "replay", "--all", "--limit=-5"}, []string{"--limit must not be negative; 0 is all"}},
		{"no time to wait", []string{"schedule", "acme", "x", "--in", "3s", "--timeout", "0"}, []string{"--timeout: must be longer than 0, such as 5s"}},
		{"less than no time to wait", []string{"health", "--timeout", "-1s"}, []string{"--timeout: must be longer than 0, such as 5s"}},
		{"a short wait without a unit", []string{"cancel", "acme", "x", "--timeout", "5"}, []string{"--timeout", "with a unit"}},
		{"file that is absent", []string{"config", "--config", "/nowhere/timers.yaml"}, []string{"/nowhere/timers.yaml", "no such file"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := do(t, nil, tt.args...).wants(t, exitUsage)
			if got.stdout != "" {
				t.Errorf("stdout is %q, want nothing", got.stdout)
			}
			got.says(t, tt.want...)
		})
	}
}

// However a URL gets into a message, its credentials do not.
func TestMistakesHideCredentials(t *testing.T) {
	t.Parallel()
	const url = "nats://user:hunter2@host:4222"
	for _, args := range [][]string{
		{"serve", url},
		{url},
		{"get", url, "x"},
		{"get", "acme", url},
		{"list", "acme", "--state", url},
		{"schedule", "acme", "x", "--in", url},
		{"schedule", "acme", "x", "--at", url},
		{"list", "acme", "--limit", url},
		{"version", "-o", url},
		{"serve", "--broker-urll=" + url},
		{"serve", "--broker-url", "x" + url},
		{"serve", "--db-path", "x.db", "--broker", url},
		{"serve", "--config", url},
	} {
		got := do(t, nil, args...).wants(t, exitUsage)
		if strings.Contains(got.stderr+got.stdout, "hunter2") {
			t.Errorf("%q: the password shows:\n%s", args, got.stderr)
		}
	}
}

func TestMistakesOfTheConfigurationAreReportedTogether(t *testing.T) {
	t.Parallel()
	got := do(t, []string{"TIMER_RETENTION=1", "TIMER_BROKR=nats"}, "serve", "--batch-size", "x").wants(t, exitUsage)
	got.says(t, "3 mistakes", "batch_size", "retention", "TIMER_BROKR", "did you mean TIMER_BROKER?")
}

// A deployment that forgets its verb must fail.
func TestNoVerbIsHelpAndAMistake(t *testing.T) {
	t.Parallel()
	got := do(t, nil).wants(t, exitUsage)
	if want := do(t, nil, "--help").wants(t, exitOK).stdout; got.stderr != want || got.stdout != "" {
		t.Errorf("no verb prints %q and %q, want the help on stderr", got.stdout, got.stderr)
	}
}

// full is a file system without space.
type full struct{}

var errFull = errors.New("no space left on device")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestOutputThatCannotBeWrittenIsAFailure(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"version"}, {"version", "-o", "json"}, {"config"}, {"--help"}} {
		var stderr strings.Builder
		if code := run(t.Context(), args, nil, full{}, &stderr); code != exitFailure {
			t.Errorf("%q: exit code %d, want %d", args, code, exitFailure)
		}
		if !strings.Contains(stderr.String(), errFull.Error()) {
			t.Errorf("%q: stderr is %q, want the reason", args, stderr.String())
		}
	}
}

// FuzzParse proves that no command line makes the parser panic.
func FuzzParse(f *testing.F) {
	for _, line := range []string{
		"schedule|acme|x|--in|3s", "list|--|-x", "-", "--", "-o", "-oé", "--=", "--output=json|config", "help", "help|help", "get|-h|-h",
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, "|")
		var stdout, stderr strings.Builder
		p, err := parse(args, &stdout, &stderr)
		if err != nil && codeOf(err) != exitUsage {
			t.Errorf("%q: exit code %d, want %d", args, codeOf(err), exitUsage)
		}
		if p != nil && p.verb() == "" {
			t.Errorf("%q: no verb", args)
		}
	})
}
