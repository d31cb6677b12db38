package store_test

import (
	"bytes"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// BenchmarkTransfer exports and imports 100,000 timers, from SQLite to SQLite, and
// without a database.
func BenchmarkTransfer(b *testing.B) {
	const n = 100_000
	records := make([]store.Record, n)
	for i := range records {
		records[i] = store.Record{Kind: store.KindTimer, Timer: timer.Entry{
			Key:     timer.Key{TenantID: "acme", ServiceCallID: timer.ServiceCallID(fmt.Sprintf("0190b5a2-7c3e-7d4f-8a1b-%012d", i))},
			Version: timer.Version{TimestampMS: 1893456000000, CommandID: fmt.Sprintf("0190b5a2-7c3e-7d4f-8a1b-%012d", i)},
			State:   timer.Scheduled, CorrelationID: "req-7f3a", DueAt: noon.Add(time.Duration(i) * time.Second), RegisteredAt: noon,
		}}
	}
	var file bytes.Buffer
	if _, err := store.Export(b.Context(), &memory{records: records}, exportedAt, &file, nil); err != nil {
		b.Fatal(err)
	}
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
	if _, err := store.Import(b.Context(), full, bytes.NewReader(file.Bytes()), nil); err != nil {
		b.Fatal(err)
	}
	run("export/lines", func(b *testing.B) error {
		_, err := store.Export(b.Context(), &memory{records: records}, exportedAt, io.Discard, nil)
		return err
	})
	run("import/lines", func(b *testing.B) error {
		_, err := store.Import(b.Context(), new(memory), bytes.NewReader(file.Bytes()), nil)
		return err
	})
	run("export/sqlite", func(b *testing.B) error {
		_, err := store.Export(b.Context(), full, exportedAt, io.Discard, nil)
		return err
	})
	run("import/sqlite", func(b *testing.B) error {
		_, err := store.Import(b.Context(), open(b, sqlite.Options{}), bytes.NewReader(file.Bytes()), nil)
		return err
	})
}
