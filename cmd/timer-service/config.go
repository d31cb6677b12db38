package main

import (
	"errors"

	"github.com/event-service-agent/timer-service/config"
)

type settingsCmd struct{}

// Help is printed below the summary.
func (settingsCmd) Help() string {
	return `A setting has one name in three spellings: polling_interval in the file,
TIMER_POLLING_INTERVAL in the environment, --polling-interval as a flag. A flag
overrides the environment, the environment the file, and the file the default. All
mistakes are reported at once, with exit code 2. Secrets are never printed. The
quotas of quotas_file are printed too.

Examples:

    timer-service config
    timer-service config --config /etc/timer-service.yaml
    TIMER_BATCH_SIZE=500 timer-service config -o json`
}

// Run prints the settings.
func (settingsCmd) Run(e *env) error {
	values := e.cfg.Values()
	quotas, err := loadFiles(e.cfg)
	if err != nil {
		return err
	}
	rows := e.out.rows("setting", "value", "from")
	for _, v := range append(values, quotas...) {
		rows.add(v, v.Key, v.Value, v.From)
	}
	rows.end(e, "", "")
	return nil
}

// loadFiles returns the quotas of quotas_file: a value for the default, and one for each
// tenant that has its own. The error lists the mistakes in that file and in the file of
// tokens, and a folder of backups that can't be used.
func loadFiles(cfg config.Config) (quotas []config.Value, err error) {
	if cfg.QuotasFile != "" {
		limits, wrong := config.LoadQuotas(cfg.QuotasFile)
		if err = wrong; err == nil {
			quotas = config.QuotaValues(limits)
		}
	}
	if cfg.HTTPTenantTokensFile != "" {
		_, wrong := config.LoadTokens(cfg.HTTPTenantTokensFile)
		err = errors.Join(err, wrong)
	}
	if err = errors.Join(err, cfg.CheckFolders()); err != nil {
		return nil, mistakes(err)
	}
	return quotas, nil
}
