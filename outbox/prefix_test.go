package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/outbox"
)

// TestTheLongestPrefixHasAnEvent, whatever the order of the handlers, and each has its
// own delays and attempts.
func TestTheLongestPrefixHasAnEvent(t *testing.T) {
	inBubble(t, func(t *testing.T, l *table, _ *model) {
		h := newHandled()
		got := make(map[string]string)
		to := func(prefix string, fails error) outbox.Handler {
			return outbox.Handler{Prefix: prefix, Concurrency: 1, Handle: func(_ context.Context, row outbox.Row) (bool, error) {
				h.note(row)
				h.mu.Lock()
				defer h.mu.Unlock()
				got[string(row.Message.Payload)] = prefix
				return false, fails
			}}
		}
		failing := to("order-", errors.New("no"))
		failing.Attempts, failing.MinDelay, failing.MaxDelay = 3, time.Minute, time.Minute
		f := forward(t, l, new(model), outbox.Options{Handlers: []outbox.Handler{to("", nil), failing, to("order-vip-", nil), to("orders", nil)}})
		l.add(f, "acme/order-1", "acme/order-vip-1", "acme/order", "acme/orders-1", "bolt/invoice-1")
		wait(time.Hour)
		want := map[string]string{"acme/order-1": "order-", "acme/order-vip-1": "order-vip-", "acme/order": "", "acme/orders-1": "orders", "bolt/invoice-1": ""}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("prefix of the handler of each event (-want +got):\n%s", diff)
		}
		calls := h.of(1)
		if len(calls) != 3 || calls[1]-calls[0] < 45*time.Second || calls[2] > 3*time.Minute || len(l.parked) != 1 || len(l.left()) != 0 {
			t.Errorf("handled at %v, parked %v, left %v; want three attempts a minute apart", calls, l.parked, l.left())
		}
	})
}

// TestADeliveryThatHangsHoldsUpNoOther has many more events of many tenants for a handler
// that hangs than are in flight at once, and a few behind them for another one, which fails
// once for each.
func TestADeliveryThatHangsHoldsUpNoOther(t *testing.T) {
	inBubble(t, func(t *testing.T, l *table, _ *model) {
		h := newHandled()
		f := forward(t, l, new(model), outbox.Options{Batch: 200, Handlers: []outbox.Handler{
			{Prefix: "slow-", Timeout: time.Hour, Handle: func(ctx context.Context, _ outbox.Row) (bool, error) {
				<-ctx.Done()
				return false, ctx.Err()
			}},
			{Handle: func(_ context.Context, row outbox.Row) (bool, error) {
				if h.note(row) == 0 {
					return false, errors.New("not yet")
				}
				return false, nil
			}},
		}})
		const slow, other = 5000, 10
		for i := range slow {
			l.append(fmt.Sprintf("tenant-%d/slow-%d", i%500, i))
		}
		for i := range other {
			l.append(fmt.Sprintf("tenant-%d/fast-%d", i, i))
		}
		f.Appended(slow + other)
		wait(15 * time.Second)
		for seq := int64(slow + 1); seq <= slow+other; seq++ {
			if calls := h.of(seq); len(calls) != 2 || calls[0] > 10*time.Second {
				t.Errorf("row %d was handled at %v, want it within 10s, and again within 15s", seq, calls)
			}
		}
		if n := len(l.left()); n != slow {
			t.Errorf("%d rows are left, want %d", n, slow)
		}
	})
}

// TestWhatNoHandlerWantsIsKept, and handled at once by a start that brings one, in the
// midst of many others that still no handler wants.
func TestWhatNoHandlerWantsIsKept(t *testing.T) {
	inBubble(t, func(t *testing.T, l *table, _ *model) {
		h := newHandled()
		handle := func(_ context.Context, row outbox.Row) (bool, error) {
			h.note(row)
			return false, nil
		}
		f, stop := forwardUntil(t, l, new(model), outbox.Options{Handlers: []outbox.Handler{{Prefix: "order-", Attempts: 1, Handle: handle}}})
		const others = 3000
		for i := range others {
			l.append(fmt.Sprintf("acme/invoice-%d", i), fmt.Sprintf("acme/refund-%d", i))
		}
		l.append("acme/order-1")
		f.Appended(2*others + 1)
		wait(24 * time.Hour)
		if n := len(l.left()); n != 2*others || len(l.parked) != 0 || len(h.calls) != 1 || len(l.rows) != 0 || len(l.deferred) != 0 {
			t.Fatalf("%d left, %d parked, %d handled, %d at the head, %d deferred", n, len(l.parked), len(h.calls), len(l.rows), len(l.deferred))
		}
		if n := f.Waiting(); n != 0 {
			t.Errorf("%d rows keep timers from firing", n)
		}
		stop()
		_, stop = forwardUntil(t, l, new(model), outbox.Options{Handlers: []outbox.Handler{{Prefix: "order-", Handle: handle}, {Prefix: "refund-", Handle: handle}}})
		wait(time.Second)
		if n := len(l.left()); n != others || len(h.calls) != others+1 {
			t.Errorf("%d left, %d handled within a second of the start", n, len(h.calls))
		}
		stop()
		p := new(model)
		forward(t, l, p, outbox.Options{}) // the program sends its events to a broker from now on
		wait(time.Second)
		if n := len(l.left()); n != 0 || len(p.count()) != others {
			t.Errorf("%d left, %d published", n, len(p.count()))
		}
	})
}
