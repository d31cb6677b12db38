package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/event-service-agent/timer-service/service"
)

type migrateCmd struct {
	What                  string `arg:"" optional:"" enum:"up,status,sql" default:"up" help:"up migrates, status prints the versions, sql prints the statements that up would run."`
	ReferenceServiceCalls bool   `help:"Also add a foreign key from timers to service_calls (tenant_id, service_call_id) of the same database. A timer is deleted with its service call."`
}

// Help is printed below the summary.
func (migrateCmd) Help() string {
	return `The service migrates its database when it starts. This verb only migrates, such as
before a roll-out. There is no way back to an older schema. A database that is newer
than this binary is an error. status and sql change nothing: sql is for people who
apply the statements by hand.

Examples:

    timer-service migrate
    timer-service migrate status
    timer-service migrate sql --db-url 'postgres://host/timers?sslmode=require' > migration.sql
    timer-service migrate --db-path /var/lib/monolith.db --reference-service-calls`
}

// Run migrates the database.
func (m *migrateCmd) Run(ctx context.Context, e *env) error {
	if m.What != "up" {
		return m.show(ctx, e)
	}
	from, to, err := service.Migrate(ctx, e.cfg, m.ReferenceServiceCalls)
	if err != nil {
		return err
	}
	result := &migrationResult{From: from, To: to, ReferenceServiceCalls: m.ReferenceServiceCalls}
	e.out.print(result, result.text())
	return nil
}

// show prints the steps of the verb up.
func (m *migrateCmd) show(ctx context.Context, e *env) error {
	if m.ReferenceServiceCalls {
		return wrong("migrate", "--reference-service-calls goes with up")
	}
	version, latest, script, err := service.Schema(ctx, e.cfg)
	if err != nil {
		return err
	}
	status := &schemaStatus{Version: version, Binary: latest}
	switch {
	case m.What == "status":
	case version > latest:
		return errors.New(status.text())
	case !e.out.json:
		_, _ = io.WriteString(e.out.w, script) // the writer keeps the error
		return nil
	default:
		status.SQL = script
	}
	e.out.print(status, status.text())
	return nil
}

// A schemaStatus compares a database with this binary.
type schemaStatus struct {
	Version int64  `json:"version"` // of the schema in the database; 0 is none
	Binary  int64  `json:"binary"`  // that this binary works with
	SQL     string `json:"sql,omitempty"`
}

func (s *schemaStatus) text() string {
	switch {
	case s.Version == 0:
		return fmt.Sprintf("no schema, this binary makes %d", s.Binary)
	case s.Version < s.Binary:
		return fmt.Sprintf("schema %d, this binary migrates it to %d", s.Version, s.Binary)
	case s.Version > s.Binary:
		return fmt.Sprintf("schema %d, newer than %d, which this binary knows: use a newer binary", s.Version, s.Binary)
	}
	return fmt.Sprintf("schema %d, that of this binary", s.Version)
}

// A migrationResult is the result of migrating a database.
type migrationResult struct {
	From                  int64 `json:"from"` // version of the schema; 0 is none
	To                    int64 `json:"to"`
	ReferenceServiceCalls bool  `json:"referenceServiceCalls"` // whether the flag was given
}

func (m *migrationResult) text() string {
	line := fmt.Sprintf("schema %d, as before", m.To)
	if m.From != m.To {
		line = fmt.Sprintf("schema %d, was %d", m.To, m.From)
	}
	if m.ReferenceServiceCalls {
		line += "\ntimers reference service_calls"
	}
	return line
}
