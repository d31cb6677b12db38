package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/event-service-agent/timer-service/app/service"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

type exportCmd struct {
	File   string `arg:"" help:"File for the export, which must not exist; - is stdout."`
	Tenant string `placeholder:"TENANT" help:"Take the timers of this tenant out of a service that runs, for another one."`
}

// Help is printed below the summary.
func (exportCmd) Help() string {
	return `Writes all timers and events as lines of JSON, for import into another SQLite or
PostgreSQL database. Stop the service first. The first line describes the export;
the last one has the counts and a checksum of the lines between:
sed '1d;$d' FILE | sha256sum. The export is written as FILE.partial, synced to disk,
and renamed to FILE.

With --tenant the service runs on. Its timers of the tenant are canceled, and FILE has
the commands by which import --tenant makes them again at another service. What fires
meanwhile is left out, and so is what has newer commands. Send the commands of the
tenant to the other service before.

Examples:

    timer-service export timers.jsonl --db-path event_service.db
    timer-service export acme.jsonl --tenant acme
    timer-service export - | gzip > timers.jsonl.gz`
}

// Run writes the export.
func (x *exportCmd) Run(ctx context.Context, e *env) error {
	if err := oneDatabase(e.cfg, "export"); err != nil {
		return err
	}
	if x.Tenant != "" {
		return x.move(ctx, e)
	}
	began := e.now()
	p := newProgress(e, "")
	out := e.out
	var sum store.Summary
	var written byteCount
	var err error
	if x.File == "-" {
		sum, err = service.Export(ctx, e.cfg, began, io.MultiWriter(e.out.w, &written), p.addRows)
		out.w = e.stderr // stdout has the lines
	} else {
		sum, written, err = x.toFile(ctx, e, p)
	}
	p.clear()
	if err != nil {
		return interrupted(ctx, err)
	}
	out.print(showTransfer("exported", x.File, sum, written, e.now().Sub(began)))
	return nil
}

// move takes the timers of a tenant out of the service.
func (x *exportCmd) move(ctx context.Context, e *env) error {
	tenant := timer.TenantID(x.Tenant)
	if err := tenant.Validate(); err != nil {
		return refused("export", err)
	}
	if x.File == "-" {
		return wrong("export", "--tenant needs a file, with which it goes on after a crash")
	}
	from, err := e.database(ctx)
	if err != nil {
		return err
	}
	defer from.Close()
	m := &move{tenant: tenant, from: from, path: x.File}
	if err := m.run(ctx, e); err != nil {
		return interrupted(ctx, err)
	}
	e.out.print(&moved{Result: "released", TenantID: tenant, File: x.File, Commands: m.written, Left: m.fired})
	return nil
}

// Moved is what export --tenant prints.
type moved struct {
	Result   string         `json:"result"`
	TenantID timer.TenantID `json:"tenantId"`
	File     string         `json:"file"`
	Commands int            `json:"commands"`
	Left     int            `json:"left"` // fired meanwhile, or have newer commands
}

func (m *moved) text() string {
	return fmt.Sprintf("released timers of %s: %d commands in %s; %d were left, since they fired or have newer commands\nnext: import %s --tenant %s, at the other service",
		m.TenantID, m.Commands, printable(m.File), m.Left, printable(m.File), m.TenantID)
}

// toFile writes the export into the file, and returns its size.
func (x *exportCmd) toFile(ctx context.Context, e *env, p *progress) (sum store.Summary, _ byteCount, err error) {
	file, err := newPartialFile("export", x.File)
	if err != nil {
		return sum, 0, err
	}
	defer file.discard()
	f, err := os.OpenFile(file.partial(), os.O_WRONLY, 0)
	if err != nil {
		return sum, 0, err
	}
	sum, err = service.Export(ctx, e.cfg, e.now(), f, p.addRows)
	if err := errors.Join(err, f.Close()); err != nil {
		return sum, 0, err
	}
	bytes, err := file.finish()
	return sum, byteCount(bytes), err
}

type importCmd struct {
	File   string `arg:"" help:"File with an export; - is stdin."`
	Tenant string `placeholder:"TENANT" help:"Add the timers that export --tenant has taken, through a service that runs."`
}

// Help is printed below the summary.
func (importCmd) Help() string {
	return `Loads an export into a database that is empty or does not exist, in one
transaction: if the file is incomplete or was changed, nothing is loaded. Then it
reads the database and compares counts and checksum. Stop the service first. After
the next start the service handles the commands that the broker kept meanwhile.

With --tenant the commands of the file are published to a service that runs, beside
those of other tenants. Newer commands of a timer win. It may be repeated. Of a file
that was cut nothing is published; of stdin, what came before its end.

Examples:

    timer-service import timers.jsonl --db-url postgres://timers@db/timers
    timer-service import acme.jsonl --tenant acme
    gunzip -c timers.jsonl.gz | timer-service import - --db-path new.db`
}

// Run loads the export.
func (i *importCmd) Run(ctx context.Context, e *env) error {
	if tenant := timer.TenantID(i.Tenant); tenant != "" {
		if err := tenant.Validate(); err != nil {
			return refused("import", err)
		}
		if err := e.checkMoved("import", i.File); err != nil {
			return err
		}
		return sendFile(ctx, e, "import", i.File, "commands", "import it", func(s *sender, in io.Reader) error {
			s.tenant, s.fresh, s.batch = tenant, true, maxBatch
			return s.sendAll(ctx, newMovedReader(in))
		})
	}
	if err := oneDatabase(e.cfg, "import"); err != nil {
		return err
	}
	in, err := e.input("import", i.File)
	if err != nil {
		return err
	}
	defer in.Close()
	began := e.now()
	p := newProgress(e, "")
	var read byteCount
	sum, err := service.Import(ctx, e.cfg, io.TeeReader(in, &read), p.addRows)
	p.clear()
	if err != nil {
		return interrupted(ctx, err)
	}
	e.out.print(showTransfer("imported", i.File, sum, read, e.now().Sub(began)))
	return nil
}

// interrupted returns an error, and says so if ctx has ended.
func interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("interrupted: %w", err)
	}
	return err
}

// A byteCount is a writer that only counts.
type byteCount int64

// Write counts p.
func (c *byteCount) Write(p []byte) (int, error) {
	*c += byteCount(len(p))
	return len(p), nil
}

// A transfer is what backup, export and import print.
type transfer struct {
	Result        string `json:"result"`
	File          string `json:"file"`
	SchemaVersion int64  `json:"schemaVersion,omitempty"` // of a backup
	counts
	Outbox  int64   `json:"outbox"`
	Parked  int64   `json:"parked"`
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"seconds"`
	SHA256  string  `json:"sha256,omitempty"` // of the lines between the first and the last
}

func showTransfer(result, file string, sum store.Summary, bytes byteCount, took time.Duration) *transfer {
	return &transfer{
		Result: result, File: file, counts: counts(sum.Timers), Outbox: sum.Outbox, Parked: sum.Parked,
		Bytes: int64(bytes), Seconds: took.Seconds(), SHA256: sum.SHA256,
	}
}

func (t *transfer) text() string {
	sum := store.Summary{Timers: timer.Counts(t.counts), Outbox: t.Outbox, Parked: t.Parked}
	file := fmt.Sprintf("%s: %s in %.1f s", printable(t.File), size(t.Bytes), t.Seconds)
	speed := float64(sum.Rows()) / max(t.Seconds, 1e-3)
	switch t.Result {
	case "backed up":
		return fmt.Sprintf("%s %s, schema %d, to %s", t.Result, sum, t.SchemaVersion, file)
	case "imported":
		return fmt.Sprintf("%s %s, from %s, %.0f rows/s\nread back and verified: sha256 %s", t.Result, sum, file, speed, t.SHA256)
	}
	return fmt.Sprintf("%s %s, to %s, %.0f rows/s\nsha256 %s", t.Result, sum, file, speed, t.SHA256)
}
