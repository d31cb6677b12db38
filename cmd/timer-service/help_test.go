package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/config"
)

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
		shown, some := shownSettings[verb]
		for _, s := range config.Settings() {
			matters := (!some || slices.Contains(shown, s.Key)) && (s.Key != "server" || !slices.Contains(localVerbs, verb))
			if strings.Contains(long, "  --"+s.Flag+"=") != matters || strings.Contains(long, "(TIMER_"+strings.ToUpper(s.Key)+")") != matters {
				t.Errorf("%s --help-all: %s matters %v\n%s", verb, s.Key, matters, long)
			}
		}
		if asks := !slices.Contains(localVerbs, verb) && (slices.Contains(shown, "server") || verb == "health"); strings.Contains(short, "--server URL names a service elsewhere") != asks {
			t.Errorf("%s --help names --server: want %v", verb, asks)
		} else if strings.Contains(short, "--token-file") != asks {
			t.Errorf("%s --help names --token-file: want %v", verb, asks)
		}
		if matters := !some || len(shown) > 0; strings.Contains(short, "timer-service "+verb+" --help-all") != matters {
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
	for verb, shown := range shownSettings {
		for _, key := range shown {
			if !slices.Contains(keys, key) {
				t.Errorf("help of %s names %s, which is not a setting", verb, key)
			}
		}
	}
}
