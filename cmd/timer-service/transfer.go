package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/service"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

type exportCmd struct {
	File string `arg:"" help:"File for the export, which must not exist; - is stdout."`
}

// Help is printed below the summary.
func (exportCmd) Help() string {
	return `Writes all timers as lines of JSON, for import into another SQLite or PostgreSQL
database. Stop the service first, when stats prints no event in the outbox and none
parked: an export has no events, and is refused while there are any. The last line
has the counts and a checksum of the lines between it and the first:
sed '1d;$d' FILE | sha256sum. The export is written as FILE.partial, synced to disk,
and renamed to FILE.

Examples:

    timer-service export timers.jsonl --db-path event_service.db
    timer-service export - | gzip > timers.jsonl.gz`
}

// Run writes the export.
func (x *exportCmd) Run(ctx context.Context, e *env) error {
	if err := oneDatabase(e.cfg, "export"); err != nil {
		return err
	}
	began, out := time.Now(), e.out
	sum := &transfer{Result: "exported", File: x.File}
	write := func(w io.Writer) error {
		s, err := service.Export(ctx, e.cfg, began, w, (&progress{w: e.stderr}).add)
		sum.Counts, sum.Messages, sum.SHA256 = admin.Counts(s.Timers), s.Messages, s.SHA256
		return err
	}
	var err error
	if x.File == "-" {
		err = write(e.out.w)
		out.w = e.stderr // stdout has the lines
	} else {
		sum.Bytes, err = service.WriteWhole(x.File, func(f *os.File) error { return write(f) })
	}
	if err != nil {
		return existing("export", interrupted(ctx, err))
	}
	sum.Seconds = time.Since(began).Seconds()
	out.print(sum, sum.text())
	return nil
}

type importCmd struct {
	File string `arg:"" help:"File with an export; - is stdin."`
}

// Help is printed below the summary.
func (importCmd) Help() string {
	return `Adds the timers of an export to a database that is empty or does not exist. The file
is checked first: of one that is incomplete or was changed nothing is imported. Then
the database is read and compared with the file. An import that fails, is interrupted
or killed leaves a part: delete the database (on PostgreSQL its schema), and import
again. Stop the service first. After the next start it handles the commands that the
broker kept.

Stdin is copied into the folder for temporary files before.

Examples:

    timer-service import timers.jsonl --db-url 'postgres://timers@db/timers?sslmode=require'
    gunzip -c timers.jsonl.gz | timer-service import - --db-path new.db`
}

// Run imports the export.
func (i *importCmd) Run(ctx context.Context, e *env) error {
	if err := oneDatabase(e.cfg, "import"); err != nil {
		return err
	}
	file, err := e.export(i.File)
	if err != nil {
		return err
	}
	defer file.Close()
	began := time.Now()
	sum, err := service.Import(ctx, e.cfg, began, file, (&progress{w: e.stderr}).add)
	if err != nil {
		return interrupted(ctx, err)
	}
	done := &transfer{Result: "imported", File: i.File, Counts: admin.Counts(sum.Timers), Messages: sum.Messages, Seconds: time.Since(began).Seconds(), SHA256: sum.SHA256}
	e.out.print(done, done.text())
	return nil
}

// export opens an export, which is read twice. Input from a pipe is copied into a temporary
// file without a name, so that nothing is left of it.
func (e *env) export(name string) (*os.File, error) {
	in, err := e.input("import", name)
	if err != nil {
		return nil, err
	}
	if file, ok := in.(*os.File); ok {
		if _, err := file.Seek(0, io.SeekStart); err == nil {
			return file, nil
		}
	}
	defer in.Close()
	file, err := os.CreateTemp("", "timer-service-import-*.jsonl")
	if err != nil {
		return nil, err
	}
	_ = os.Remove(file.Name()) // some systems remove no open file
	_, err = io.Copy(file, in)
	_, atStart := file.Seek(0, io.SeekStart)
	return file, errors.Join(err, atStart)
}

// interrupted returns err, and adds that the verb was interrupted if ctx has ended.
func interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("interrupted: %w", err)
	}
	return err
}

// A transfer is the result of export and import.
type transfer struct {
	Result string `json:"result"`
	File   string `json:"file"`
	admin.Counts
	Messages int64   `json:"messages,omitempty"` // that wait
	Bytes    int64   `json:"bytes,omitempty"`    // of a file that was written
	Seconds  float64 `json:"seconds"`
	SHA256   string  `json:"sha256"` // of the lines between the first and the last
}

func (t *transfer) text() string {
	file := "file"
	if t.Result == "imported" {
		file = "read back and verified, file"
	}
	return fmt.Sprintf("%s %s in %.1f s\n%s %s, sha256 of the lines between its first and its last %s", t.Result, store.Summary{Timers: timer.Counts(t.Counts), Messages: t.Messages}, t.Seconds, file, printable(t.File), t.SHA256)
}
