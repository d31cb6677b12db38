package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/event-service-agent/timer-service/service"
)

type doctorCmd struct{}

// Help is printed below the summary.
func (doctorCmd) Help() string {
	return `Looks at all that the service needs, as the service would, whether it runs or not: the
settings, who may read the files, disk and lock, the schema of the database and whether
it takes writes, what is at the broker and whether it fits, which database owns the
commands, the clocks, and how many timers only a backup protects. It changes nothing, and
waits at most five seconds for each. Run it as the user of the service, with the same
settings.

Each line is ok, warning or bad, with what to do. The exit code is 1 if one is bad.

Examples:

    timer-service doctor
    timer-service doctor --config /etc/timer-service.yaml
    timer-service doctor -o json`
}

// Run prints the findings.
func (doctorCmd) Run(ctx context.Context, e *env) error {
	if _, err := loadFiles(e.cfg); err != nil {
		return err
	}
	counts := make(map[string]int)
	for _, c := range service.Examine(ctx, e.cfg) {
		f := &finding{"ok", c.Part, c.Reason, c.Advice}
		switch {
		case c.Red:
			f.State = "bad"
		case c.Advice != "":
			f.State = "warning"
		}
		counts[f.State]++
		e.out.print(f, f.text())
	}
	if n := counts["bad"]; n > 0 {
		return fmt.Errorf("%d bad, %d warnings, %d ok: do what the lines say, from the first on", n, counts["warning"], counts["ok"])
	}
	return nil
}

// A finding is one line of the output.
type finding struct {
	// State is "ok"; or "warning": it works, but perhaps not for long, or not as expected; or
	// "bad": it does not work.
	State string `json:"state"`
	Check string `json:"check"` // such as "database"
	Text  string `json:"text"`
	Do    string `json:"do,omitempty"` // what to do about it
}

func (f *finding) text() string {
	line := fmt.Sprintf("%-8s %-11s %s", f.State, f.Check, strings.TrimSuffix(f.Text, "."))
	if f.Do != "" {
		line += " -> " + f.Do
	}
	return printable(line)
}
