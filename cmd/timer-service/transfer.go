package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/service"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

type exportCmd struct {
	File   string         `arg:"" help:"File for the export, which must not exist; - is stdout."`
	Tenant timer.TenantID `placeholder:"TENANT" help:"Take the timers of this tenant out of a service that runs, for another one."`
}

// Help is printed below the summary.
func (exportCmd) Help() string {
	return `Writes all timers as lines of JSON, for import into another SQLite or PostgreSQL
database. Stop the service first, when stats prints no event in the outbox and none
parked: an export has no events, and is refused while there are any. The last line
has the counts and a checksum of the lines between it and the first:
sed '1d;$d' FILE | sha256sum. The export is written as FILE.partial, synced to disk,
and renamed to FILE.

With --tenant the service runs on. FILE.before has the timers of the tenant. Timers
that wait are canceled, in the versions that it has, and FILE has the canceled ones, for
import --tenant at another service. What fires meanwhile is left out, and so is what
has newer commands. Send the commands of the tenant to the other service before. After
a crash run it again.

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
	out, p := e.out, stages(e)
	var sum store.Summary
	var written byteCount
	write := func(w io.Writer) (err error) {
		sum, err = service.Export(ctx, e.cfg, began, io.MultiWriter(w, &written), p)
		return err
	}
	var err error
	if x.File == "-" {
		err = write(e.out.w)
		out.w = e.stderr // stdout has the lines
	} else {
		_, err = service.WriteWhole(x.File, func(f *os.File) error { return write(f) })
	}
	if err != nil {
		return existing("export", interrupted(ctx, err))
	}
	out.print(showTransfer("exported", x.File, sum, written, e.now().Sub(began)))
	return nil
}

// move moves the timers of a tenant out of the service.
func (x *exportCmd) move(ctx context.Context, e *env) error {
	if x.File == "-" {
		return wrong("export", "--tenant needs a file, with which it goes on after a crash")
	}
	from, err := service.Reader(ctx, e.cfg)
	if err != nil {
		return err
	}
	defer from.Close()
	m := &move{tenant: x.Tenant, from: from, path: x.File}
	if err := m.run(ctx, e); err != nil {
		return existing("export", interrupted(ctx, err))
	}
	e.out.print(&moved{Result: "released", TenantID: x.Tenant, File: x.File, Counts: admin.Counts(m.sum.Timers), Left: m.left})
	return nil
}

// Moved is the result of export --tenant.
type moved struct {
	Result   string         `json:"result"`
	TenantID timer.TenantID `json:"tenantId"`
	File     string         `json:"file"`
	admin.Counts
	Left int `json:"left"` // fired meanwhile, or have newer commands
}

func (m *moved) text() string {
	return fmt.Sprintf("released %s of %s into %s; %d were left, since they fired or have newer commands\nnext: import %[3]s --tenant %[2]s, at the other service",
		store.Summary{Timers: timer.Counts(m.Counts)}, m.TenantID, printable(m.File), m.Left)
}

type importCmd struct {
	File   string         `arg:"" help:"File with an export; - is stdin."`
	Tenant timer.TenantID `placeholder:"TENANT" help:"Add the timers that export --tenant has released, through a service that runs."`
}

// Help is printed below the summary.
func (importCmd) Help() string {
	return `Adds the timers of an export to a database that is empty or does not exist. The file
is checked first: of one that is incomplete or was changed nothing is imported. Then
the database is read and compared with the file. What was added is removed if the
import is interrupted; after a kill delete the database, and import again. Stop the
service first. After the next start it handles the commands that the broker kept.

With --tenant the timers of the file are published, as commands, to a service that
runs, beside those of other tenants. Newer commands of a timer win. It may be repeated.

Stdin is copied into the folder for temporary files before.

Examples:

    timer-service import timers.jsonl --db-url postgres://timers@db/timers
    timer-service import acme.jsonl --tenant acme
    gunzip -c timers.jsonl.gz | timer-service import - --db-path new.db`
}

// Run imports the export.
func (i *importCmd) Run(ctx context.Context, e *env) error {
	if err := oneDatabase(e.cfg, "import"); i.Tenant == "" && err != nil {
		return err
	}
	file, err := e.export(i.File)
	if err != nil {
		return err
	}
	defer file.close()
	if i.Tenant != "" {
		return publishExport(ctx, e, i.File, file, i.Tenant)
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	began := e.now()
	sum, err := service.Import(ctx, e.cfg, began, file, stages(e))
	if err != nil {
		return interrupted(ctx, err)
	}
	e.out.print(showTransfer("imported", i.File, sum, byteCount(info.Size()), e.now().Sub(began)))
	return nil
}

// An exportFile is an export that is read twice.
type exportFile struct {
	*os.File
	temporary string // name of a temporary file, which is removed when it is closed; or empty
}

func (f exportFile) close() {
	_ = f.Close() // the file was only read
	_ = os.Remove(f.temporary)
}

// export opens an export. Input from a pipe is copied into a temporary file.
func (e *env) export(name string) (exportFile, error) {
	in, err := e.input("import", name)
	if err != nil {
		return exportFile{}, err
	}
	if file, ok := in.(*os.File); ok {
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			return exportFile{File: file}, nil
		}
	}
	defer in.Close()
	file, err := os.CreateTemp("", "timer-service-import-*.jsonl")
	if err != nil {
		return exportFile{}, err
	}
	copied := exportFile{file, file.Name()}
	_, err = io.Copy(file, in)
	_, atStart := file.Seek(0, io.SeekStart)
	if err = errors.Join(err, atStart); err != nil {
		copied.close()
	}
	return copied, err
}

// interrupted returns err, and adds that the verb was interrupted if ctx has ended.
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

// A transfer is the result of export and import.
type transfer struct {
	Result string `json:"result"`
	File   string `json:"file"`
	admin.Counts
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"seconds"`
	SHA256  string  `json:"sha256"` // of the lines between the first and the last
}

func showTransfer(result, file string, sum store.Summary, bytes byteCount, took time.Duration) *transfer {
	return &transfer{
		Result: result, File: file, Counts: admin.Counts(sum.Timers), Bytes: int64(bytes), Seconds: took.Seconds(), SHA256: sum.SHA256,
	}
}

func (t *transfer) text() string {
	sum := store.Summary{Timers: timer.Counts(t.Counts)}
	file := fmt.Sprintf("%s: %s in %.1f s, %.0f timers/s", printable(t.File), humanize.Bytes(uint64(t.Bytes)), t.Seconds, float64(sum.Timers.Total())/max(t.Seconds, 1e-3))
	if t.Result == "imported" {
		return fmt.Sprintf("%s %s, from %s\nread back and verified: sha256 %s", t.Result, sum, file, t.SHA256)
	}
	return fmt.Sprintf("%s %s, to %s\nsha256 %s", t.Result, sum, file, t.SHA256)
}
