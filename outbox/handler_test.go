package outbox_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/timer"
)

// A handlerLog records the events that a handler was called with, and when.
type handlerLog struct {
	mu    sync.Mutex
	calls map[int64][]time.Duration // by row, since the begin
	began time.Time
}

func newHandled() *handlerLog {
	return &handlerLog{calls: make(map[int64][]time.Duration), began: time.Now()}
}

// note notes a call and returns how many there were for the row before.
func (h *handlerLog) note(row outbox.Row) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls[row.Seq] = append(h.calls[row.Seq], time.Since(h.began))
	return len(h.calls[row.Seq]) - 1
}

func (h *handlerLog) of(seq int64) []time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.calls[seq])
}

func TestDeliversEachRowOnceAndDeletesThemTogether(t *testing.T) {
	inBubble(t, func(t *testing.T, l *table, p *model) {
		h := newHandled()
		f := forward(t, l, p, outbox.Options{Handlers: []outbox.Handler{{Handle: func(_ context.Context, row outbox.Row) (bool, error) {
			h.note(row)
			return false, nil
		}}}})
		l.add(f, slices.Repeat([]string{"a"}, 100)...)
		wait(time.Second)
		if len(h.calls) != 100 || len(l.left()) != 0 || len(l.deleted) != 100 || p.calls != 0 {
			t.Errorf("%d rows handled, %d deleted, left %v, %d publishes", len(h.calls), len(l.deleted), l.left(), p.calls)
		}
		if deletes := l.calls("delete"); deletes > 5 {
			t.Errorf("%d deletes", deletes)
		}
		for seq, calls := range h.calls {
			if len(calls) != 1 {
				t.Errorf("row %d was handled %d times", seq, len(calls))
			}
		}
	})
}

// TestAHandlerThatWorksHasNoRowDeferred has many more events than may wait for a handler, which
// takes them as they come.
func TestAHandlerThatWorksHasNoRowDeferred(t *testing.T) {
	inBubble(t, func(t *testing.T, l *table, p *model) {
		h := newHandled()
		f := forward(t, l, p, outbox.Options{Batch: 100, Handlers: []outbox.Handler{{Handle: func(_ context.Context, row outbox.Row) (bool, error) {
			h.note(row)
			time.Sleep(10 * time.Millisecond)
			return false, nil
		}}}})
		const rows = 5000
		l.add(f, slices.Repeat([]string{"acme"}, rows)...)
		wait(rows/16*10*time.Millisecond + time.Second)
		if len(h.calls) != rows || len(l.left()) != 0 || l.calls("defer") != 0 {
			t.Errorf("%d rows handled, %d left, %d times some were deferred", len(h.calls), len(l.left()), l.calls("defer"))
		}
	})
}

// TestHandlerIsTriedAgainLessAndLessOften has handlers fail in each way that they
// can.
func TestHandlerIsTriedAgainLessAndLessOften(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func() error{
		"error":  func() error { return errors.New("no \xff\x00") },
		"panic":  func() error { panic("no") },
		"goexit": func() error { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, p, h := new(table), new(model), newHandled()
				var reasons []string
				deliver := outbox.Handler{Attempts: 10, MaxDelay: time.Minute, Handle: func(_ context.Context, row outbox.Row) (bool, error) {
					h.note(row)
					return false, fail()
				}}
				f, stop := forwardUntil(t, l, p, outbox.Options{Handlers: []outbox.Handler{deliver}})
				l.add(f, "a")
				time.Sleep(time.Minute)
				stop() // attempts are counted in the row
				forward(t, l, p, outbox.Options{Handlers: []outbox.Handler{deliver}, Settled: func(_ time.Time, _ string, _ outbox.Row, err error) { reasons = append(reasons, err.Error()) }})
				wait(time.Hour)
				calls := h.of(1)
				if len(calls) != 10 || len(l.left()) != 0 || len(l.parked) != 1 || len(reasons) != 1 {
					t.Fatalf("%d calls, left %v, parked %v, reasons %q", len(calls), l.left(), l.parked, reasons)
				}
				want := time.Second
				for i := 1; i < len(calls); i++ {
					least := want * 3 / 4
					if calls[i-1] < time.Minute && calls[i] >= time.Minute { // a start tries all that waits
						least = 0
					}
					if got := calls[i] - calls[i-1]; got < least || got > want+time.Second {
						t.Errorf("attempt %d after %v, want about %v", i+1, got, want)
					}
					want = min(2*want, time.Minute)
				}
			})
		})
	}
}

func TestWhatHandleHasDeletedIsNotDeletedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, l *table, p *model) {
		h := newHandled()
		f := forward(t, l, p, outbox.Options{Handlers: []outbox.Handler{{Handle: func(_ context.Context, row outbox.Row) (bool, error) {
			h.note(row)
			l.mu.Lock()
			defer l.mu.Unlock()
			l.remove(row.Place)
			return true, nil
		}}}})
		l.add(f, "a", "a")
		wait(time.Minute)
		if len(h.of(1)) != 1 || len(h.of(2)) != 1 || len(l.deleted) != 0 || len(l.left()) != 0 {
			t.Errorf("handled %v, deleted %v, left %v", h.calls, l.deleted, l.left())
		}
	})
}

func TestReceiptsGoToTheBrokerAllTheSame(t *testing.T) {
	inBubble(t, func(t *testing.T, l *table, p *model) {
		h := newHandled()
		f := forward(t, l, p, outbox.Options{Handlers: []outbox.Handler{{Handle: func(_ context.Context, row outbox.Row) (bool, error) {
			h.note(row)
			return false, nil
		}}}})
		l.append("event", "receipt", "event")
		l.mu.Lock()
		l.rows[1].Message.Metadata.Set(envelope.HeaderType, string(timer.TimerScheduled))
		l.mu.Unlock()
		f.Appended(2)
		f.Appended(0)
		wait(time.Second)
		if diff := cmp.Diff(map[string][]string{"receipt": {"id-2"}}, p.ids); diff != "" || len(h.calls) != 2 || len(l.left()) != 0 {
			t.Errorf("handled %v, left %v, published (-want +got):\n%s", h.calls, l.left(), diff)
		}
	})
}

// TestStopWaitsForHandlers stops while three are at work: one ends soon, one when its
// context does, and one never began.
func TestStopWaitsForHandlers(t *testing.T) {
	inBubble(t, func(t *testing.T, l *table, p *model) {
		h := newHandled()
		f, stop := forwardUntil(t, l, p, outbox.Options{Grace: 10 * time.Second, Handlers: []outbox.Handler{{Concurrency: 2, Handle: func(ctx context.Context, row outbox.Row) (bool, error) {
			h.note(row)
			if row.Seq == 1 {
				time.Sleep(5 * time.Second)
				return false, nil
			}
			<-ctx.Done()
			return false, ctx.Err()
		}}}})
		l.add(f, "soon", "late")
		synctest.Wait() // both have begun
		l.add(f, "never")
		synctest.Wait()
		began := time.Now()
		stop()
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("the stop took %v, want 10s", took)
		}
		if diff := cmp.Diff([]int64{2, 3}, l.left()); diff != "" || len(h.of(3)) != 0 || len(l.deferred) != 0 {
			t.Errorf("%d calls for the third, deferred %v, left (-want +got):\n%s", len(h.of(3)), l.deferred, diff)
		}
	})
}

// TestALostLeaseEndsItsHandlers has a shard taken away from an instance whose handler
// waits for its context, which at a stop has an hour.
func TestALostLeaseEndsItsHandlers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, h := newBoard(2), newHandled()
		ends := make(chan time.Time, 2)
		f := newForwarder(t, outbox.Outbox{Shards: b}, new(model), outbox.Options{Grace: time.Hour, Handlers: []outbox.Handler{{Handle: func(ctx context.Context, row outbox.Row) (bool, error) {
			if h.note(row) > 0 {
				return false, nil
			}
			<-ctx.Done()
			ends <- time.Now()
			return false, ctx.Err()
		}}}})
		<-f.Ready()
		b.shards[0].append("a")
		f.Appended(1)
		synctest.Wait()
		began := time.Now()
		b.lose(0)
		if took := (<-ends).Sub(began); took > time.Second {
			t.Errorf("the handler had %v after the lease was lost", took)
		}
		b.free(0)
		wait(time.Minute)
		if len(h.of(1)) != 2 || len(b.shards[0].left()) != 0 {
			t.Errorf("handled at %v, left %v", h.of(1), b.shards[0].left())
		}
	})
}

// A brokenError is an error whose methods fail with a nil pointer.
type brokenError struct{ err error }

func (b *brokenError) Error() string { return b.err.Error() }
func (b *brokenError) Unwrap() error { return b.err }

func TestAnErrorThatPanicsIsAFailureOfItsRow(t *testing.T) {
	inBubble(t, func(t *testing.T, l *table, _ *model) {
		h := newHandled()
		f := forward(t, l, new(model), outbox.Options{Handlers: []outbox.Handler{{Handle: func(_ context.Context, row outbox.Row) (bool, error) {
			if h.note(row) == 0 {
				var none *brokenError
				return false, none // is not nil
			}
			return false, nil
		}}}})
		l.add(f, "a")
		wait(time.Minute)
		if n := len(h.of(1)); n != 2 || len(l.left()) != 0 {
			t.Errorf("handled %d times, left %v", n, l.left())
		}
	})
}

// TestSlowTenantHoldsUpNoOther has a tenant with more rows than are in flight at once,
// whose handlers take a second and fail, and one whose handlers fail once.
func TestSlowTenantHoldsUpNoOther(t *testing.T) {
	inBubble(t, func(t *testing.T, l *table, _ *model) {
		h := newHandled()
		f := forward(t, l, new(model), outbox.Options{Batch: 400, Handlers: []outbox.Handler{{Handle: func(_ context.Context, row outbox.Row) (bool, error) {
			before := h.note(row)
			if string(row.Message.Payload) == "slow" {
				time.Sleep(time.Second)
				return false, errors.New("no")
			}
			time.Sleep(time.Millisecond)
			if before == 0 {
				return false, errors.New("not yet")
			}
			return false, nil
		}}}})
		const slow, other, rounds = 1000, 5, 5
		for round := range rounds {
			l.append(slices.Concat(slices.Repeat([]string{"slow"}, slow), slices.Repeat([]string{"other"}, other))...)
			f.Appended(slow + other)
			began := time.Since(h.began)
			wait(15 * time.Second)
			for i := range int64(other) {
				seq := int64(round+1)*(slow+other) - i
				calls := h.of(seq)
				if len(calls) != 2 || calls[0] > began+10*time.Second || calls[1] > calls[0]+4*time.Second {
					t.Errorf("round %d: another tenant's row was handled at %v, want it within 10s of %v and again 4s later", round, calls, began)
				}
			}
		}
	})
}

// TestUntriedRowsCountNoAttempt has more rows of a tenant wait than are handled before
// maxWait is over: each has as many attempts as any other.
func TestUntriedRowsCountNoAttempt(t *testing.T) {
	inBubble(t, func(t *testing.T, l *table, _ *model) {
		h := newHandled()
		f := forward(t, l, new(model), outbox.Options{Handlers: []outbox.Handler{{Concurrency: 1, Attempts: 2, Handle: func(_ context.Context, row outbox.Row) (bool, error) {
			h.note(row)
			time.Sleep(100 * time.Millisecond)
			return false, errors.New("no")
		}}}})
		const rows = 100
		l.add(f, slices.Repeat([]string{"a"}, rows)...)
		wait(5 * time.Minute)
		for seq := range int64(rows) {
			if n := len(h.of(seq + 1)); n != 2 {
				t.Errorf("row %d was handled %d times, want 2", seq+1, n)
			}
		}
		if len(l.parked) != rows || len(l.left()) != 0 {
			t.Errorf("%d parked, left %v", len(l.parked), l.left())
		}
	})
}

// TestRetriesThatHangHoldUpNoOther has more rows of a tenant hang than a round of
// retries takes, and fewer than may be handled at once.
func TestRetriesThatHangHoldUpNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const hanging = 40
		l, h := new(table), newHandled()
		f := forward(t, l, new(model), outbox.Options{Handlers: []outbox.Handler{{Concurrency: 64, Handle: func(ctx context.Context, row outbox.Row) (bool, error) {
			again := h.note(row) > 0
			if again && row.Seq <= hanging {
				<-ctx.Done()
				return false, ctx.Err()
			}
			if again {
				return false, nil
			}
			return false, errors.New("not yet")
		}}}})
		l.add(f, slices.Repeat([]string{"a"}, hanging)...)
		time.Sleep(10 * time.Second)
		l.add(f, "a")
		wait(5 * time.Second)
		if n := len(h.of(hanging + 1)); n != 2 {
			t.Errorf("handled %d times, want it tried again while others hang", n)
		}
	})
}

// TestAnEventIsNeverGivenUp has a handler that fails for eight hours, until another version
// of it starts, which handles the event at once.
func TestAnEventIsNeverGivenUp(t *testing.T) {
	inBubble(t, func(t *testing.T, l *table, _ *model) {
		calls := 0
		failing := outbox.Handler{Handle: func(context.Context, outbox.Row) (bool, error) {
			calls++
			return false, errors.New("no such column")
		}}
		f, stop := forwardUntil(t, l, new(model), outbox.Options{Handlers: []outbox.Handler{failing}})
		l.add(f, "acme")
		time.Sleep(8*time.Hour + 30*time.Minute)
		stop()
		if calls < 19 || calls > 23 || len(l.left()) != 1 {
			t.Errorf("%d calls, of which the last ones were to be an hour apart; left %v", calls, l.left())
		}
		var handled time.Time
		forward(t, l, new(model), outbox.Options{Handlers: []outbox.Handler{{Handle: func(context.Context, outbox.Row) (bool, error) {
			handled = time.Now()
			return false, nil
		}}}})
		began := time.Now()
		wait(time.Minute)
		if took := handled.Sub(began); handled.IsZero() || took > 2*time.Second || len(l.left()) != 0 {
			t.Errorf("handled %v after the start, left %v", took, l.left())
		}
	})
}
