package app_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/internal/fault"
	"github.com/event-service-agent/timer-service/timer"
)

// A sick store has a check that finds something, or hangs.
type sick struct {
	app.Store
	found atomic.Pointer[string]
	hangs atomic.Pointer[chan struct{}]
}

func (s *sick) Check(context.Context) error {
	if c := s.hangs.Load(); c != nil {
		<-*c
	}
	if text := s.found.Load(); text != nil {
		return errors.New(*text)
	}
	return nil
}

// TestChecksSayWhatIsWrong breaks one thing after the other.
func TestChecksSayWhatIsWrong(t *testing.T) {
	inBubbles(t, func(t *testing.T, b *bench) {
		var fails atomic.Bool
		var ahead atomic.Int64
		s := &sick{Store: &fault.Store{Full: b.store, Decide: func(string) fault.Kind {
			if fails.Load() {
				return fault.Before
			}
			return fault.None
		}}}
		a := b.serve(s, app.Options{Clock: timer.ClockFunc(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })})
		// wants has exactly these parts red, each with its reason.
		wants := func(when string, want map[string]string) {
			t.Helper()
			began := time.Now()
			checks := a.Checks(t.Context())
			if took := time.Since(began); took > time.Second {
				t.Errorf("%s: the checks took %v", when, took)
			}
			parts := make(map[string]bool)
			for _, c := range checks {
				parts[c.Part] = true
				reason, red := want[c.Part]
				if red != c.Red || !strings.Contains(c.Reason, reason) || c.Red && c.Advice == "" {
					t.Errorf("%s: %+v, want %q", when, c, reason)
				}
			}
			if len(parts) != 7 || len(checks) != 7 {
				t.Errorf("%s: %d checks of %d parts, want 7", when, len(checks), len(parts))
			}
		}
		wants("at rest", nil)

		full := "the file system is full"
		s.found.Store(&full)
		wants("with a store that finds something", map[string]string{"store": full})
		s.found.Store(nil)
		for range 2 { // the second does not wait behind the first
			hang := make(chan struct{})
			s.hangs.Store(&hang)
			wants("with a store that hangs", map[string]string{"store": "no answer within 1s"})
			s.hangs.Store(nil)
			close(hang)
			synctest.Wait()
		}
		wants("with a store that answers again", nil)

		ahead.Store(int64(time.Hour))
		time.Sleep(6 * time.Second)
		wants("with a clock that jumped", map[string]string{"clock": "jumped forward"})
		time.Sleep(10 * time.Second) // it is believed then, since nothing contradicts it
		wants("with a clock that is believed", nil)

		fails.Store(true)
		b.schedule("call-1", time.Now().Add(time.Hour))
		time.Sleep(10 * time.Second)
		wants("with a store that fails", map[string]string{"intake": "the database fails", "poller": "the last poll failed"})
		fails.Store(false)
		time.Sleep(time.Minute)
		wants("with a store that works again", nil)
	})
}

// TestAnAppThatDoesNotRunIsRed: it has not begun.
func TestAnAppThatDoesNotRunIsRed(t *testing.T) {
	inBubbles(t, func(t *testing.T, b *bench) {
		a, err := app.New(b.store, b.broker, quiet, app.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var red []string
		for _, c := range a.Checks(t.Context()) {
			if c.Red {
				red = append(red, c.Part)
			}
		}
		if got := strings.Join(red, " "); got != "owner intake poller" {
			t.Errorf("red are %s", got)
		}
	})
}
