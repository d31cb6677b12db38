package main

import (
	"context"
	"fmt"

	"github.com/event-service-agent/timer-service/app/service"
)

type migrateCmd struct {
	ReferenceServiceCalls bool `help:"Also add a foreign key from timers to service_calls (tenant_id, service_call_id) of the same database. A timer is deleted with its service call."`
}

// Help is printed below the summary.
func (migrateCmd) Help() string {
	return `The service migrates its database when it starts. This verb only migrates, such as
before a roll-out. There is no way back to an older schema. A database that is newer
than this binary is an error.

Examples:

    timer-service migrate
    timer-service migrate --db-path /var/lib/monolith.db --reference-service-calls`
}

// Run migrates the database.
func (m *migrateCmd) Run(ctx context.Context, e *env) error {
	from, to, err := service.Migrate(ctx, e.cfg, m.ReferenceServiceCalls)
	if err != nil {
		return err
	}
	e.out.print(&migrated{From: from, To: to, ReferenceServiceCalls: m.ReferenceServiceCalls})
	return nil
}

// A migrated is a database with the schema of this binary.
type migrated struct {
	From                  int64 `json:"from"` // version of the schema; 0 is none
	To                    int64 `json:"to"`
	ReferenceServiceCalls bool  `json:"referenceServiceCalls"` // whether the flag was given
}

func (m *migrated) text() string {
	line := fmt.Sprintf("schema %d, as before", m.To)
	if m.From != m.To {
		line = fmt.Sprintf("schema %d, was %d", m.To, m.From)
	}
	if m.ReferenceServiceCalls {
		line += "\ntimers reference service_calls"
	}
	return line
}
