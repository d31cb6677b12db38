package app_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker/gochannel"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// TestAnAppRunsOnce, and says so the next time.
func TestAnAppRunsOnce(t *testing.T) {
	t.Parallel()
	db, err := openDatabase(filepath.Join(t.TempDir(), "host.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	a, err := app.New(sqlite.New(db, sqlite.Options{}), gochannel.New(gochannel.Options{}, quiet), quiet, app.Options{RunBroker: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	<-a.Running()
	again := func() {
		if err := a.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "an App runs once") {
			t.Error(err)
		}
	}
	again()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	again()
}

// TestSecondAppOnADatabaseIsRefused where one of both has a handler: an event would go to
// either. It is refused at the start, and runs when the first one has stopped.
func TestSecondAppOnADatabaseIsRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ first, second, refused bool }{
		"both handle":        {true, true, true},
		"the first does":     {true, false, true},
		"the second does":    {false, true, true},
		"both have a broker": {false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "host.db")
			start := func(handles bool) (ready <-chan struct{}, ended <-chan error, stop func()) {
				db, err := openDatabase(path)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = db.Close() })
				a, err := app.New(sqlite.New(db, sqlite.Options{}), gochannel.New(gochannel.Options{}, quiet), quiet, app.Options{RunBroker: true})
				if err != nil {
					t.Fatal(err)
				}
				if handles {
					a.Timers().OnDue("", func(context.Context, timer.DueTimeReached) error { return nil }, app.OnDueOptions{})
				}
				ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
				t.Cleanup(cancel)
				end := make(chan error, 1)
				go func() { end <- a.Run(ctx) }()
				return a.Running(), end, cancel
			}
			ready, first, stop := start(test.first)
			<-ready
			ready, second, stopSecond := start(test.second)
			select {
			case <-ready:
				if test.refused {
					t.Error("two apps on a database")
				}
				stopSecond()
				if err := <-second; err != nil {
					t.Error(err)
				}
			case err := <-second:
				if !test.refused || err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "make one app for both") {
					t.Errorf("%v", err)
				}
			}
			stop()
			if err := <-first; err != nil {
				t.Error(err)
			}
			ready, third, stop := start(test.second)
			<-ready
			stop()
			if err := <-third; err != nil {
				t.Error(err)
			}
		})
	}
}
