package main

import (
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/event-service-agent/timer-service/config"
)

type settingsCmd struct{}

// Help is printed below the summary.
func (settingsCmd) Help() string {
	return `One setting has one name, spelled three ways: polling_interval in the file,
TIMER_POLLING_INTERVAL in the environment, --polling-interval as a flag. A flag
wins over the environment, the environment over the file, the file over the
default. All mistakes are reported at once, with exit code 2. Secrets are never
printed. What the file of quotas_file says is printed, too.

Examples:

    timer-service config
    timer-service config --config /etc/timer-service.yaml
    TIMER_BATCH_SIZE=500 timer-service config -o json`
}

// Run prints the settings.
func (settingsCmd) Run(e *env) error {
	values := e.cfg.Values()
	quotas, err := loadQuotas(e.cfg)
	if err != nil {
		return err
	}
	values = append(values, quotas...)
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

// loadQuotas returns what the file with quotas says, a value for the default and
// one for each tenant that has its own.
func loadQuotas(cfg config.Config) ([]config.Value, error) {
	if cfg.QuotasFile == "" {
		return nil, nil
	}
	book, err := config.LoadQuotas(cfg.QuotasFile)
	if err != nil {
		return nil, mistakes(err)
	}
	return config.QuotaValues(book), nil
}
