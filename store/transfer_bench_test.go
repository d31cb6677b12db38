package store_test

import (
	"io"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// BenchmarkTransfer exports and imports 100,000 timers, from SQLite to SQLite, and
// without a database.
func BenchmarkTransfer(b *testing.B) {
	const n = 100_000
	entries := many(n)
	file := export(b, entries)
	run := func(name string, step func(b *testing.B) error) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := step(b); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*n/b.Elapsed().Seconds(), "timers/s")
		})
	}
	full := open(b, sqlite.Options{})
	if _, err := store.Import(b.Context(), full, strings.NewReader(file), noon, nil); err != nil {
		b.Fatal(err)
	}
	run("export/lines", func(*testing.B) error {
		_, err := store.WriteExport(io.Discard, exportedAt, nil, each(entries))
		return err
	})
	run("read/lines", func(*testing.B) error {
		_, err := store.ReadExport(strings.NewReader(file), "", func(timer.Entry) error { return nil })
		return err
	})
	run("export/sqlite", func(b *testing.B) error {
		_, err := store.Export(b.Context(), full, exportedAt, io.Discard, nil)
		return err
	})
	run("import/sqlite", func(b *testing.B) error {
		_, err := store.Import(b.Context(), open(b, sqlite.Options{}), strings.NewReader(file), noon, nil)
		return err
	})
}
