package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/fx"
	"go.uber.org/fx/fxtest"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/gochannel"
	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/timer"
)

// newBroker provides a broker that other parts of the program use as well.
func newBroker(lc fx.Lifecycle, sd fx.Shutdowner, log *slog.Logger) broker.Broker {
	b := gochannel.New(gochannel.Options{}, log)
	app.KeepBroker(lc, sd, log, b)
	return b
}

// With a broker, commands of others come in as well.
func TestShopTakesCommandsOfABroker(t *testing.T) {
	t.Parallel()
	var timers *app.Timers
	var b broker.Broker
	program := fxtest.New(t, shop(filepath.Join(t.TempDir(), "shop.db")), fx.Provide(newBroker), fx.NopLogger, fx.Populate(&timers, &b))
	program.RequireStart()
	defer program.RequireStop()
	order := client.Timer{TenantID: "acme", ServiceCallID: "order-1", After: time.Hour}
	if _, err := client.New(broker.NewWatermillPublisher(b.Publisher()), b.Routing(), client.Options{}).Schedule(t.Context(), order); err != nil {
		t.Fatal(err)
	}
	for {
		_, err := timers.Get(t.Context(), order.Key())
		if err == nil {
			return
		}
		if !errors.Is(err, timer.ErrNotFound) { // not found: the command is on its way
			t.Fatal(err)
		}
	}
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

// TestDocsShowThisExample compares the Go of the pages with that of this folder, of the
// recipes, of the examples of timertest and of the test of migrations, which compiles and is
// tested.
func TestDocsShowThisExample(t *testing.T) {
	t.Parallel()
	var source strings.Builder
	files, err := filepath.Glob("../[mr]*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(files, "../../store/postgres/postgres_test.go", "../../timertest/example_test.go", "../../timertest/postgres_test.go") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		source.WriteString(unindented(string(text)))
	}
	for _, name := range []string{"../../README.md", "../../docs/embedding.md", "../../docs/testing.md"} {
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
				t.Errorf("%s shows code that is not tested:\n%s", name, block[1])
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
