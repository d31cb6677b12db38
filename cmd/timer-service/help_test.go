package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/config"
)

var verbs = []string{
	"serve", "schedule", "cancel", "get", "list", "stats", "top", "health", "doctor", "publish", "tail",
	"dlq list", "dlq show", "dlq replay", "dlq discard", "parked list", "parked show", "parked retry", "parked discard",
	"pause", "resume", "tenants forget", "quotas show", "backup", "export", "import", "migrate", "provision", "config", "completion", "version",
}

// screen is how many lines of 100 characters a help has at most.
const screen = 40

func TestHelpFitsAScreen(t *testing.T) {
	t.Parallel()
	screens := map[string][]string{program: {"--help"}, "dlq": {"dlq", "--help"}, "parked": {"parked", "--help"}}
	for _, verb := range verbs {
		screens[strings.ReplaceAll(verb, " ", "-")] = append(strings.Fields(verb), "--help")
	}
	for name, args := range screens {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := do(t, nil, args...).wants(t, exitOK).stdout
			if n := strings.Count(got, "\n"); n > screen {
				t.Errorf("%d lines, want at most %d", n, screen)
			}
		})
	}
}

func TestHelpVerbIsTheSame(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"help"}, {"help", "schedule"}} {
		want := do(t, nil, append(slices.Clone(args[1:]), "--help")...).wants(t, exitOK)
		if diff := cmp.Diff(want.stdout, do(t, nil, args...).wants(t, exitOK).stdout); diff != "" {
			t.Errorf("%q (-want +got):\n%s", args, diff)
		}
	}
}

// Help is printed even if the configuration is wrong.
func TestHelpNeedsNoConfiguration(t *testing.T) {
	t.Parallel()
	environ := []string{"TIMER_BATCH_SIZE=many", "TIMER_CONFIG=/nowhere"}
	do(t, environ, "serve", "--help").wants(t, exitOK)
	do(t, environ, "version").wants(t, exitOK)
}

func TestEveryVerbHasExamples(t *testing.T) {
	t.Parallel()
	for _, verb := range verbs {
		help := do(t, nil, append(strings.Fields(verb), "--help")...).wants(t, exitOK).stdout
		if !strings.Contains(help, "Examples:\n\n    timer-service "+verb) {
			t.Errorf("help of %s has no examples", verb)
		}
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
	for verb, shown := range shownSettings {
		for _, key := range shown {
			if !slices.Contains(keys, key) {
				t.Errorf("help of %s names %s, which is not a setting", verb, key)
			}
		}
	}
}

// All settings that matter to a verb are in its long help, with their variables.
func TestHelpAllShowsSettings(t *testing.T) {
	t.Parallel()
	for _, verb := range verbs {
		short := do(t, nil, append(strings.Fields(verb), "--help")...).wants(t, exitOK).stdout
		long := do(t, nil, append(strings.Fields(verb), "--help-all")...).wants(t, exitOK).stdout
		shown, some := shownSettings[verb]
		if !strings.HasPrefix(long, strings.Split(short, "\nSettings (")[0]) {
			t.Errorf("%s --help-all has not all that is in --help", verb)
		}
		for _, s := range config.Settings() {
			matters := !some || slices.Contains(shown, s.Key)
			if strings.Contains(long, "  --"+s.Flag+"=") != matters || strings.Contains(long, "(TIMER_"+strings.ToUpper(s.Key)+")") != matters {
				t.Errorf("%s --help-all: %s matters %v\n%s", verb, s.Key, matters, long)
			}
			if strings.Contains(short, "  --"+s.Flag+"=") {
				t.Errorf("%s --help has the setting %s", verb, s.Key)
			}
		}
		if matters := !some || len(shown) > 0; strings.Contains(short, "timer-service "+verb+" --help-all") != matters {
			t.Errorf("%s --help names --help-all: want %v", verb, matters)
		}
	}
	do(t, nil, "get", "--help-all").wants(t, exitOK)
}

// Who provisions must find the settings of every broker in the help.
func TestHelpOfProvisionShowsEveryBroker(t *testing.T) {
	t.Parallel()
	for _, s := range config.Settings() {
		broker, _, _ := strings.Cut(s.Key, "_")
		if slices.Contains([]string{"nats", "kafka", "rabbitmq", "broker"}, broker) && !slices.Contains(provisionSettings, s.Key) {
			t.Errorf("help of provision does not show %s", s.Key)
		}
	}
}

// golden compares with a file, or writes it with -update.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; run the test with -update to write it", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}
