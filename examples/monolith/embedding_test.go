package main

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/gochannel"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// An hour passes at once in a bubble of testing/synctest.
func TestFiresAfterAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(48 * time.Hour) // bubbles begin with the year 2000, before which nothing may be due

		db, err := sql.Open("sqlite", sqlite.DSN(filepath.Join(t.TempDir(), "test.db")))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		b := gochannel.New(gochannel.Options{}, slog.Default())
		stopBroker := goRun(t, b.Run)
		defer stopBroker()
		synctest.Wait()

		events, err := b.Subscriber("test").Subscribe(t.Context(), b.Routing().EventsOf("acme"))
		if err != nil {
			t.Fatal(err)
		}
		stop := goRun(t, func(ctx context.Context) error { return runTimers(ctx, db, b) })
		defer stop()
		synctest.Wait() // commands are taken; gochannel keeps none for a service that has not begun

		due := time.Now().Add(time.Hour)
		if err := schedule(t.Context(), b, "acme", "order-1", due); err != nil {
			t.Fatal(err)
		}
		event := <-events
		event.Ack()
		if late := time.Since(due); late < 0 || late > time.Second {
			t.Errorf("fired %v after it was due", late)
		}
	})
}

// runTimers is the timer service without fx.
func runTimers(ctx context.Context, db *sql.DB, b broker.Broker) error {
	if err := sqlite.Migrate(ctx, db); err != nil {
		return err
	}
	service, err := app.New(sqlite.New(db, sqlite.Options{}), b, slog.Default(), app.Options{})
	if err != nil {
		return err
	}
	return service.Run(ctx) // until ctx is done; the broker must run meanwhile
}

// schedule asks for a timer. It returns nil when the broker has the command.
func schedule(ctx context.Context, b broker.Broker, tenant timer.TenantID, call timer.ServiceCallID, due time.Time) error {
	id := uuid.Must(uuid.NewV7()).String()
	command := envelope.Schedule(timer.ScheduleTimer{
		Key:     timer.Key{TenantID: tenant, ServiceCallID: call},
		Version: timer.Version{TimestampMS: time.Now().UnixMilli(), CommandID: id},
		DueAt:   due,
	})
	return b.Publisher().Publish(ctx, broker.Message{
		Topic:   b.Routing().CommandsOf(tenant),
		Message: message.NewMessage(id, command),
	})[0]
}

// goRun runs something until stop is called.
func goRun(t *testing.T, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

// TestDocsShowThisExample compares the Go of the pages with that of this folder,
// which compiles and is tested.
func TestDocsShowThisExample(t *testing.T) {
	t.Parallel()
	var source strings.Builder
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		source.WriteString(unindented(string(text)))
	}
	for _, name := range []string{"../../README.md", "../../docs/embedding.md"} {
		page, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(page), -1)
		if len(blocks) == 0 {
			t.Errorf("%s shows no Go", name)
		}
		for _, block := range blocks {
			if !strings.Contains(source.String(), unindented(block[1])) {
				t.Errorf("%s shows what is not in this folder:\n%s", name, block[1])
			}
		}
	}
}

// unindented returns a text without the white space at the begin of its lines, and
// within them with single spaces.
func unindented(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
	}
	return out.String()
}
