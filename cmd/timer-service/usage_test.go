package main

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/config"
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
		{"unknown flag", []string{"schedule", "acme", "x", "--inn", "3s"}, []string{"--inn", "did you mean", `"--in"`, "schedule --help"}},
		{"flag without value", []string{"serve", "--db-path"}, []string{"--db-path: needs a value"}},
		{"too many arguments", []string{"get", "acme", "x", "y"}, []string{"unexpected argument y"}},
		{"invalid tenant", []string{"schedule", "_acme", "x", "--in", "3s"}, []string{`tenantId "_acme"`, "A-Z a-z 0-9 _ -"}},
		{"no time", []string{"schedule", "acme", "x"}, []string{"--in 3s", "--at 2030-01-31T12:00:00Z"}},
		{"two times", []string{"schedule", "acme", "x", "--in", "3s", "--at", "2030-01-01T00:00:00Z"}, []string{"--in and --at can't be used together"}},
		{"a timer of no tenant", []string{"schedule", "--in", "3s"}, []string{"<tenant>", "schedule --help"}},
		{"misspelled state", []string{"list", "acme", "--state", "scheduled"}, []string{`one of "Scheduled",`}},
		{"a flag as a value", []string{"schedule", "acme", "x", "--in", "--wait"}, []string{"--in: needs a value"}},
		{"time without zone", []string{"schedule", "acme", "x", "--at", "2030-01-01T00:00:00"}, []string{"--at", "2030-01-01T00:00:00", "no zone", "Z or an offset"}},
		{"data that are no JSON", []string{"schedule", "acme", "x", "--in", "3s", "--data", "{a:1}"}, []string{"--data is not one JSON value"}},
		{"list without a tenant", []string{"list"}, []string{"tenant", "--correlation"}},
		{"counts of one and of all", []string{"stats", "acme", "--tenants"}, []string{"exclude each other"}},
		{"replay of nothing named", []string{"dlq", "replay"}, []string{"ids, --tenant, --reason, --correlation or --since, or all with --all", "dlq replay --help"}},
		{"replay of all and one", []string{"dlq", "replay", "x", "--all"}, []string{"<id> and --all exclude each other"}},
		{"dead letters for no reason", []string{"dlq", "list", "--reason", "none"}, []string{"--reason", `"beyond_horizon"`, `"none"`}},
		{"tail of no tenant", []string{"tail", "dlq", "--tenant", "*"}, []string{"--tenant", `"*"`}},
		{"publish a file that is absent", []string{"publish", "/nowhere/commands.jsonl"}, []string{"/nowhere/commands.jsonl", "no such file"}},
		{"publish at no rate, apart", []string{"publish", "-", "--rate", "-1"}, []string{"--rate: must not be negative"}},
		{"a setting below none", []string{"serve", "--batch-size", "-1"}, []string{`batch_size="-1" (--batch-size)`, "whole number"}},
		{"dead letters of a tenant without a name", []string{"dlq", "discard", "--tenant", "", "--since", "24h"}, []string{"--tenant has no value"}},
		{"dead letters for a reason without a name", []string{"dlq", "discard", "--tenant", "acme", "--reason="}, []string{"--reason has no value"}},
		{"a dead letter without an id", []string{"dlq", "discard", "", "--tenant", "acme"}, []string{"an argument has no value"}},
		{"one id of two", []string{"dlq", "show", "x", ""}, []string{"an argument has no value"}},
		{"events of an empty prefix", []string{"refire", "--since", "2h", "--prefix", ""}, []string{"--prefix has no value"}},
		{"fewer timers than none", []string{"list", "acme", "--limit", "-1"}, []string{"--limit must not be negative; 0 is all"}},
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

// A setting or a global flag that is empty, as of a script, stands for its default.
func TestEmptySettingsAreDefaults(t *testing.T) {
	t.Parallel()
	do(t, nil, "--config", "", "--token-file=", "config", "--db-url", "", "--batch-size=").wants(t, exitOK)
}

// However a URL gets into a message, its credentials do not.
func TestMistakesHideCredentials(t *testing.T) {
	t.Parallel()
	const url = "nats://user:hunter2@host:4222"
	for _, args := range [][]string{
		{"serve", url},
		{url},
		{"get", url, "x"},
		{"schedule", "acme", "x", "--in", url},
		{"list", "acme", "--limit", url},
		{"version", "-o", url},
		{"serve", "--broker-urll=" + url},
		{"serve", "--broker-url", "x" + url},
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

// screen is the most lines of 100 characters that a help may have.
const screen = 40

// TestHelpFitsAScreen has the help of each verb: it has examples, and names the flags of the
// verb. The long help has the settings that matter to it, with their variables.
func TestHelpFitsAScreen(t *testing.T) {
	t.Parallel()
	p := &commandLine{cli: new(cli), flags: newSettingFlags()}
	for _, leaf := range grammar(p, nil, nil, func(int) {}).Model.Leaves(true) {
		verb := leaf.Path()
		short := do(t, nil, append(strings.Fields(verb), "--help")...).wants(t, exitOK).prints(t, "Examples:\n\n    timer-service "+verb).stdout
		long := do(t, nil, append(strings.Fields(verb), "--help-all")...).wants(t, exitOK).stdout
		if n := strings.Count(short, "\n"); n > screen {
			t.Errorf("%s: %d lines, want at most %d", verb, n, screen)
		}
		for _, f := range leaf.Flags {
			if !strings.Contains(short, "--"+f.Name) {
				t.Errorf("help of %s lacks --%s", verb, f.Name)
			}
		}
		asks := asksService(verb)
		for _, s := range config.Settings() {
			matters := !slices.Contains(bareVerbs, verb) && (s.Key != "server" || verb == "config")
			if asks {
				matters = slices.Contains(serviceSettings, s.Key)
			}
			if strings.Contains(long, "  --"+s.Flag+"=") != matters || strings.Contains(long, "(TIMER_"+strings.ToUpper(s.Key)+")") != matters {
				t.Errorf("%s --help-all: %s matters %v\n%s", verb, s.Key, matters, long)
			}
		}
		if strings.Contains(short, "--server URL names a service elsewhere") != asks || strings.Contains(short, "--token-file") != asks {
			t.Errorf("%s --help names --server and --token-file: want %v", verb, asks)
		}
		if matters := !slices.Contains(bareVerbs, verb); strings.Contains(short, "timer-service "+verb+" --help-all") != matters {
			t.Errorf("%s --help names --help-all: want %v", verb, matters)
		}
	}
	for _, args := range [][]string{{"--help"}, {"dlq", "--help"}, {"parked", "--help"}} {
		if n := strings.Count(do(t, nil, args...).wants(t, exitOK).stdout, "\n"); n > screen {
			t.Errorf("%q: %d lines, want at most %d", args, n, screen)
		}
	}
	do(t, nil, "help", "schedule").wants(t, exitOK).prints(t, "timer-service schedule --help-all")
}

// Help is printed even if the configuration is wrong, and so is the version.
func TestHelpNeedsNoConfiguration(t *testing.T) {
	t.Parallel()
	environ := []string{"TIMER_BATCH_SIZE=many", "TIMER_CONFIG=/nowhere"}
	do(t, environ, "serve", "--help").wants(t, exitOK)
	for _, verb := range []string{"version", "--version"} {
		do(t, environ, verb).wants(t, exitOK).prints(t, program+" "+built().Version+"\n")
	}
}

// Every setting is a flag of every verb, though its help may not show it.
func TestEverySettingIsAFlag(t *testing.T) {
	t.Parallel()
	var keys []string
	for _, s := range config.Settings() {
		keys = append(keys, s.Key)
		if s.Default == "" {
			continue
		}
		got := do(t, nil, "config", "--"+s.Flag, s.Default, "-o", "json").wants(t, exitOK)
		if want := `{"key":"` + s.Key + `",`; !strings.Contains(got.stdout, want) || strings.Count(got.stdout, `"from":"flag"`) != 1 {
			t.Errorf("--%s does not set %s:\n%s", s.Flag, s.Key, got.stdout)
		}
	}
	for _, key := range serviceSettings {
		if !slices.Contains(keys, key) {
			t.Errorf("help names %s, which is not a setting", key)
		}
	}
}

// TestEachFailureSaysWhatToDo has what usually fails for verbs of each kind, its exit code, and
// what to do.
func TestEachFailureSaysWhatToDo(t *testing.T) {
	t.Parallel()
	server, _ := answering(t)
	none := filepath.Join(t.TempDir(), "none.db")
	for _, tt := range []struct {
		environ []string
		code    int
		hint    string
		lines   []string
	}{
		{[]string{"TIMER_SERVER=http://127.0.0.1:1"}, exitFailure, `See whether it runs with "timer-service health --server URL"`, []string{"get acme a", "schedule acme a --in 1s", "tail events"}},
		{[]string{"TIMER_SERVER=http://127.0.0.1:1"}, exitFailure, `"timer-service doctor" looks for the cause.`, []string{"health"}},
		{[]string{"TIMER_SERVER=" + server}, exitNotFound, `lists what there is.`, []string{"get acme a", "dlq show x", "dlq replay x", "parked show 1", "parked discard 1"}},
		{[]string{"TIMER_DB_PATH=" + none}, exitFailure, `"timer-service doctor" looks for the cause.`, []string{"get acme a", "stats", "backup " + none + ".backup", "export " + none + ".jsonl"}},
		{[]string{"TIMER_DB_PATH=" + none}, exitFailure, "start one, or name one with --server", []string{"pause", "tenants forget acme --yes", "schedule acme a --in 1s", "tail events", "cancel acme a", "dlq list"}},
		{[]string{"TIMER_DB_URL=postgres://127.0.0.1:1/none", "TIMER_HTTP_ADDR="}, exitFailure, `"timer-service doctor" looks for the cause.`, []string{"get acme a", "migrate"}},
		{[]string{"TIMER_BROKER_URL=nats://127.0.0.1:1"}, exitFailure, `"timer-service doctor" looks for the cause.`, []string{"provision"}},
		{[]string{"TIMER_DB_PATH=/nowhere/data/timers.db", "TIMER_HTTP_ADDR=", "TIMER_NATS_PORT=0"}, exitFailure, "there is no folder /nowhere", []string{"serve", "migrate", "recover"}},
		{[]string{"TIMER_DB_PATH=/nowhere/data/timers.db"}, exitFailure, "do what the lines say", []string{"doctor"}},
	} {
		for _, line := range tt.lines {
			do(t, tt.environ, strings.Fields(line)...).wants(t, tt.code).says(t, tt.hint)
		}
	}
}
