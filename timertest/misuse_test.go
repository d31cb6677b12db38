package timertest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/timer"
	"github.com/event-service-agent/timer-service/timertest"
)

// A victim is a test that may fail.
type victim struct {
	testing.TB
	said string
}

func (v *victim) Helper()           {}
func (v *victim) Output() io.Writer { return io.Discard }

func (v *victim) Error(args ...any) { v.said += fmt.Sprint(args...) }

func (v *victim) Fatal(args ...any) {
	v.Error(args...)
	runtime.Goexit()
}

func (v *victim) Fatalf(format string, args ...any) { v.Fatal(fmt.Sprintf(format, args...)) }

// fails runs what should fail a test, and returns what that says.
func fails(t *testing.T, do func(t testing.TB)) string {
	v := &victim{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		do(v)
	}()
	<-done
	return v.said
}

func TestOutsideOfABubble(t *testing.T) {
	t.Parallel()
	if said := fails(t, func(t testing.TB) { timertest.Start(t) }); !strings.Contains(said, "inside of synctest.Test") {
		t.Errorf("it says %q", said)
	}
}

func TestFailuresSayWhatToDo(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		do   func(s *timertest.Service)
		want string
		opt  timertest.Option // nil: none
	}{
		{"idle after a crash", func(s *timertest.Service) { s.Crash(); s.AwaitIdle() }, "call Restart before AwaitIdle", nil},
		{"a second crash", func(s *timertest.Service) { s.Crash(); s.Crash() }, "can't crash", nil},
		{"a timer without a tenant", func(s *timertest.Service) {
			due := order("call", 0)
			due.TenantID = ""
			s.Schedule(due)
		}, "tenantId", nil},
		{"a command while the broker is down", func(s *timertest.Service) { s.BrokerDown(time.Hour); s.Schedule(order("call", 0)) }, "the broker is down for a while (timertest)", nil},
		{"what never ends", func(s *timertest.Service) {
			if err := s.App().Pause(context.Background(), timer.Pause{By: "ops"}); err != nil {
				panic(err)
			}
			s.Schedule(order("call", 0))
			s.AwaitIdle()
		}, "not idle after 1h0m0s: the timer that is due at", nil},
		{"an option without what it takes", func(*timertest.Service) {}, "timertest.Log needs a *slog.Logger, and got nil", timertest.Log(nil)},
		{
			"a handler that never succeeds", func(s *timertest.Service) {
				s.Schedule(order("call", 0))
				s.AwaitIdle()
			}, `1 events are not published; forwarder: 1 events have failed in the handler of OnDue for ten minutes or longer, such as acme.call: out of stock, in the handler with the prefix "ca"`,
			timertest.OnDue("ca", func(context.Context, timer.DueTimeReached) error { return errors.New("out of stock") }, app.OnDueOptions{}),
		},
		{
			"a handler that does not return", func(s *timertest.Service) {
				s.Schedule(order("call", 0))
				s.AwaitIdle()
			}, `the handler with the prefix "ca" has been at work on the event of acme.call for 1h`,
			timertest.OnDue("ca", func(ctx context.Context, _ timer.DueTimeReached) error { <-ctx.Done(); return ctx.Err() }, app.OnDueOptions{Timeout: 2 * time.Hour}),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var options []timertest.Option
			if tt.opt != nil {
				options = append(options, tt.opt)
			}
			synctest.Test(t, func(t *testing.T) {
				if said := fails(t, func(v testing.TB) { tt.do(timertest.Start(v, options...)) }); !strings.Contains(said, tt.want) {
					t.Errorf("it says %q, want %q in it", said, tt.want)
				}
			})
		})
	}
}
