package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// How a shell completes a line; the line is $1, and the completions are printed, one
// a line.
var shells = map[string]string{
	"bash": `source <(timer-service completion bash); COMP_LINE=$1; COMP_POINT=${#1}; _timer_service; printf '%s\n' "${COMPREPLY[@]}"`,
	"zsh": `compdef() { }; _files() { print FILES }; _describe() { print -l -- ${(P)3} }
		source <(timer-service completion zsh); words=("${(@s: :)1}"); CURRENT=${#words}; _timer-service`,
	"fish": `timer-service completion fish | source; complete -C "$argv[1]"`,
}

// TestCompletion has each shell that is there complete lines.
func TestCompletion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	binary, err := os.Executable()
	must(t, err)
	must(t, os.Symlink(binary, filepath.Join(dir, program)))
	for shell, script := range shells {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			path, err := exec.LookPath(shell)
			if err != nil {
				t.Skipf("SKIPPED: there is no %s", shell)
			}
			for _, test := range []struct {
				line string
				want []string
			}{
				{"doc", []string{"doctor"}},
				{"dlq re", []string{"replay"}},
				{"dlq replay --dry", []string{"--dry-run"}},
				{"list acme -o ", []string{"text", "json"}},
				{"serve --broker r", []string{"rabbitmq"}},
				{"migrate ", []string{"up", "status", "sql"}},
				{"schedule acme order-1 --du", nil},
			} {
				args := []string{"-c", script, shell, program + " " + test.line}
				if shell == "fish" {
					args = []string{"--no-config", "-c", script, program + " " + test.line}
				}
				cmd := exec.CommandContext(t.Context(), path, args...)
				cmd.Env = []string{asProgram + "=main", "PATH=" + dir + ":" + os.Getenv("PATH"), "HOME=" + dir}
				out, err := cmd.CombinedOutput()
				var got []string
				for line := range strings.Lines(string(out)) {
					word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
					word, _, _ = strings.Cut(word, ":")
					if word != "" && word != "FILES" {
						got = append(got, word)
					}
				}
				if shell == "fish" { // which sorts
					slices.Sort(got)
					slices.Sort(test.want)
				}
				if !slices.Equal(got, test.want) {
					t.Errorf("%q completes to %q, want %q (%v)", test.line, got, test.want, err)
				}
			}
		})
	}
}

// TestCompleteIsKnownToEachScript looks for the verb that the scripts call.
func TestCompleteIsKnownToEachScript(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		do(t, nil, "completion", shell).wants(t, exitOK).prints(t, completeVerb)
	}
	do(t, []string{"TIMER_BATCH_SIZE=many"}, "completion", "bash").wants(t, exitOK)
	for words, want := range map[string]string{"--output=j": "--output=json\t\n", "tail commands ": "", "list acme --state R": "Reached\t\n", "dlq list --reason bad_f": "bad_field\t\n", "get acme --db-path ": "", "-- -": "", "nothing at all": "", "stats --nats-sub": ""} {
		if got := do(t, nil, append([]string{completeVerb}, strings.Split(words, " ")...)...).wants(t, exitOK).stdout; got != want {
			t.Errorf("%q: %q, want %q", words, got, want)
		}
	}
}
