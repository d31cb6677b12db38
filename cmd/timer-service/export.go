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
	File string `arg:"" help:"File for the export, which must not exist; - is stdout."`
}

// Help is printed below the summary.
func (exportCmd) Help() string {
	return `Writes all timers and events as lines of JSON, for import into another database,
of the same kind or of the other. Stop the service first. The first line says
what it is, the last one has the counts and a checksum of the lines between:
sed '1d;$d' FILE | sha256sum. FILE is written as FILE.partial, and gets its name
when it is whole and on the disk.

Examples:

    timer-service export timers.jsonl --db-path event_service.db
    timer-service export - | gzip > timers.jsonl.gz`
}

// Run writes the export.
func (x *exportCmd) Run(ctx context.Context, e *env) error {
	if err := oneDatabase(e.cfg, "export"); err != nil {
		return err
	}
	began := e.now()
	shown := &stages{e: e}
	var sum store.Summary
	var bytes int64
	var err error
	if x.File == "-" {
		lines := &counter{w: e.out.w}
		sum, err = service.Export(ctx, e.cfg, began, lines, shown.tell)
		bytes = lines.n
	} else {
		sum, bytes, err = x.toFile(ctx, e, shown)
	}
	shown.clear()
	if err != nil {
		return interrupted(ctx, err)
	}
	out := e.out
	if x.File == "-" {
		out.w = e.stderr // the lines are in the output
	}
	out.print(moved("exported", x.File, sum, bytes, e.now().Sub(began)))
	return nil
}

// toFile writes the export into the file, and returns how much it is.
func (x *exportCmd) toFile(ctx context.Context, e *env, shown *stages) (sum store.Summary, bytes int64, err error) {
	file, err := newWholeFile("export", x.File)
	if err != nil {
		return sum, 0, err
	}
	defer file.discard()
	f, err := os.OpenFile(file.partial(), os.O_WRONLY, 0)
	if err != nil {
		return sum, 0, err
	}
	sum, err = service.Export(ctx, e.cfg, e.now(), f, shown.tell)
	if err := errors.Join(err, f.Close()); err != nil {
		return sum, 0, err
	}
	if bytes, err = file.sync(); err != nil {
		return sum, 0, err
	}
	return sum, bytes, file.finish()
}

// interrupted returns an error, and says so if it is the end of ctx.
func interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("interrupted: %w", err)
	}
	return err
}

// A counter counts what is written.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// A movement is what export and import print.
type movement struct {
	Result string `json:"result"`
	File   string `json:"file"`
	counts
	Outbox  int64   `json:"outbox"`
	Parked  int64   `json:"parked"`
	Bytes   int64   `json:"bytes"` // of the lines
	Seconds float64 `json:"seconds"`
	SHA256  string  `json:"sha256"` // of the lines between the first and the last
}

func moved(result, file string, sum store.Summary, bytes int64, took time.Duration) *movement {
	return &movement{
		Result: result, File: file, counts: counts(sum.Timers), Outbox: sum.Outbox, Parked: sum.Parked,
		Bytes: bytes, Seconds: took.Seconds(), SHA256: sum.SHA256,
	}
}

func (m *movement) text() string {
	sum := store.Summary{Timers: timer.Counts(m.counts), Outbox: m.Outbox, Parked: m.Parked}
	way, proof := "to", "sha256"
	if m.Result == "imported" {
		way, proof = "from", "read back, and the same: sha256"
	}
	return fmt.Sprintf("%s %s, %s %s: %s in %.1f s, %.0f rows/s\n%s %s", m.Result, sum, way, printable(m.File), size(m.Bytes), m.Seconds,
		float64(sum.Rows())/max(m.Seconds, 1e-3), proof, m.SHA256)
}

// stages show how far work of several stages is, one after the other.
type stages struct {
	e     *env
	stage string
	p     *progress
}

func (s *stages) tell(stage string, n int) {
	if stage != s.stage {
		s.clear()
		s.stage, s.p = stage, newProgress(s.e, "rows "+stage)
	}
	s.p.add(n)
}

func (s *stages) clear() { s.p.clear() }
