package main

import (
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"
)

type settingsCmd struct{}

// Help is printed below the summary.
func (settingsCmd) Help() string {
	return `One setting has one name, spelled three ways: polling_interval in the file,
TIMER_POLLING_INTERVAL in the environment, --polling-interval as a flag. A flag
wins over the environment, the environment over the file, the file over the
default. All mistakes are reported at once, with exit code 2. Secrets are never
printed.

Examples:

    timer-service config
    timer-service config --config /etc/timer-service.yaml
    TIMER_BATCH_SIZE=500 timer-service config -o json`
}

// Run prints the settings.
func (settingsCmd) Run(e *env) error {
	values := e.cfg.Values()
	if e.out.json {
		for _, v := range values {
			e.out.line(v)
		}
		return nil
	}
	t := newTable("setting", "value", "from")
	for _, v := range values {
		t.AppendRow(table.Row{v.Key, orDash(v.Value), v.From})
	}
	fmt.Fprintln(e.out.w, t.Render())
	return nil
}
