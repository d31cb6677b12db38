package main

import (
	"context"
	"io"
	"os"

	"github.com/event-service-agent/timer-service/app/service"
)

type importCmd struct {
	File string `arg:"" help:"File that export wrote; - is stdin."`
}

// Help is printed below the summary.
func (importCmd) Help() string {
	return `Loads an export into a database that is empty, or that is not there yet, in one
transaction: all of it or nothing, also if the file ends early or was changed.
Then it reads the database back and compares counts and checksum. Stop the
service first. What the brokers kept meanwhile is handled after the next start.

Examples:

    timer-service import timers.jsonl --db-url postgres://timers@db/timers
    gunzip -c timers.jsonl.gz | timer-service import - --db-path new.db`
}

// Run loads the export.
func (i *importCmd) Run(ctx context.Context, e *env) error {
	if err := oneDatabase(e.cfg, "import"); err != nil {
		return err
	}
	in := &readCounter{r: e.stdin}
	if i.File != "-" {
		file, err := os.Open(i.File)
		if err != nil {
			return wrong("import", "%w", err)
		}
		defer file.Close()
		in.r = file
	}
	began := e.now()
	shown := &stages{e: e}
	sum, err := service.Import(ctx, e.cfg, in, shown.tell)
	shown.clear()
	if err != nil {
		return interrupted(ctx, err)
	}
	e.out.print(moved("imported", i.File, sum, in.n, e.now().Sub(began)))
	return nil
}

// A readCounter counts what is read.
type readCounter struct {
	r io.Reader
	n int64
}

// Read reads, and counts it.
func (c *readCounter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}
