package outbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/timer"
)

// A board is an outbox in shards, in memory, that instances share.
type board struct {
	mu     sync.Mutex
	shards []*table
	leases map[int]*lease
	fail   error        // of an instance that wants a shard
	lost   error        // of an instance that takes over
	next   int          // shard where the next search for an abandoned one begins
	log    *slog.Logger // of the instances
}

func newBoard(shards int) *board {
	b := &board{leases: make(map[int]*lease), log: slog.New(slog.DiscardHandler)}
	for range shards {
		b.shards = append(b.shards, new(table))
	}
	return b
}

type lease struct {
	*table
	board *board
	shard int
	lost  chan struct{}
}

func (b *board) take(wants func(shard int) bool) (*lease, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fail != nil {
		return nil, b.fail
	}
	for n, l := range b.shards {
		if b.leases[n] == nil && wants(n) {
			b.leases[n] = &lease{l, b, n, make(chan struct{})}
			return b.leases[n], nil
		}
	}
	return nil, nil //nolint:nilnil // as the port has it
}

func (b *board) Own(context.Context, outbox.Receivers) (outbox.Lease, error) {
	l, err := b.take(func(int) bool { return true })
	if l == nil {
		return nil, errors.Join(err, errors.New("all have an owner"))
	}
	return l, nil
}

func (b *board) TakeOver(context.Context) (outbox.Lease, error) {
	if b.lost != nil {
		return nil, b.lost
	}
	for _, all := range []bool{false, true} { // behind the last one, then all
		l, err := b.take(func(n int) bool {
			if n < b.next && !all || len(b.shards[n].left()) == 0 {
				return false
			}
			b.next = n + 1
			return true
		})
		if err != nil {
			return nil, err
		}
		if l != nil {
			return l, nil
		}
	}
	return nil, nil //nolint:nilnil // as the port has it
}

func (l *lease) Shard() int { return l.shard }

func (l *lease) Lost() <-chan struct{} { return l.lost }

func (l *lease) Release() {
	l.board.mu.Lock()
	defer l.board.mu.Unlock()
	if l.board.leases[l.shard] == l {
		delete(l.board.leases, l.shard)
	}
}

// lose takes the lease of a shard away, and lets no other take it.
func (b *board) lose(shard int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.leases[shard].lost)
	b.leases[shard] = new(lease)
}

// free lets others lease a shard again.
func (b *board) free(shard int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.leases, shard)
}

func (b *board) owner(shard int) *lease {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.leases[shard]
}

// An instance runs a forwarder until it is stopped.
type instance struct {
	*outbox.Forwarder
	sent model
	stop func()
}

func newInstance(t *testing.T, b *board) *instance {
	t.Helper()
	i := new(instance)
	i.Forwarder = outbox.New(outbox.Outbox{Shards: b}, &i.sent, payload, timer.ClockFunc(time.Now), b.log, outbox.Options{})
	i.stop = start(t, i.Forwarder)
	return i
}

// at returns when an event with a payload was published.
func (i *instance) at(payload string) time.Time {
	i.sent.mu.Lock()
	defer i.sent.mu.Unlock()
	return i.sent.topics[payload]
}

// down has every publish fail.
func (i *instance) down() {
	i.sent.publish = func(broker.Message) error { return errors.New("the broker is down") }
}

// onShards runs a test with an outbox in shards, of which an instance owns the first one.
func onShards(t *testing.T, shards int, test func(t *testing.T, b *board, i *instance)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBoard(shards)
		i := newInstance(t, b)
		synctest.Wait()
		test(t, b, i)
	})
}

// TestOthersForwardAnAbandonedShard has rows in an abandoned shard.
func TestOthersForwardAnAbandonedShard(t *testing.T) {
	onShards(t, 4, func(t *testing.T, b *board, i *instance) {
		began := time.Now()
		for _, shard := range []int{1, 2, 3} {
			b.shards[shard].append(fmt.Sprint("event-", shard))
		}
		wait(time.Second)
		for _, shard := range []int{1, 2, 3} {
			if took := i.at(fmt.Sprint("event-", shard)).Sub(began); took < 0 || took > time.Second {
				t.Errorf("shard %d was forwarded after %v, want within a second", shard, took)
			}
			if b.owner(shard) != nil {
				t.Errorf("shard %d is empty and still owned", shard)
			}
		}
	})
}

// TestNoLeaseWaits has more abandoned shards than an instance forwards at a
// time: it leaves the others to others.
func TestNoLeaseWaits(t *testing.T) {
	onShards(t, 8, func(t *testing.T, b *board, i *instance) {
		i.down()
		for shard := range b.shards {
			b.shards[shard].append("event")
		}
		wait(5 * time.Second)
		if n := len(b.leases); n != 5 {
			t.Errorf("it owns %d shards, want its own and 4 others", n)
		}
		i.stop()
		if len(b.leases) > 0 {
			t.Errorf("after the stop %d shards have an owner", len(b.leases))
		}
	})
}

// TestWhatFailsInAbandonedShardsHoldsUpNoOther has more abandoned shards than an instance
// forwards at a time. Each has an event that fails for as long as it is tried.
func TestWhatFailsInAbandonedShardsHoldsUpNoOther(t *testing.T) {
	onShards(t, 10, func(t *testing.T, b *board, i *instance) {
		const broken = "of a tenant without a queue"
		i.sent.publish = func(m broker.Message) error {
			if m.Topic == broken {
				return errTopic
			}
			return nil
		}
		began := time.Now()
		for shard := 1; shard < 10; shard++ {
			b.shards[shard].append(broken, fmt.Sprint("good-", shard))
		}
		wait(time.Minute)
		for shard := 1; shard < 10; shard++ {
			if took := i.at(fmt.Sprint("good-", shard)).Sub(began); took < 0 || took > 25*time.Second {
				t.Errorf("shard %d was forwarded after %v, want within two turns", shard, took)
			}
		}
	})
}

// TestDrainGoesOnWithTheNextShard loses the shard during a drain.
func TestDrainGoesOnWithTheNextShard(t *testing.T) {
	onShards(t, 2, func(t *testing.T, b *board, i *instance) {
		i.down()
		b.shards[0].append("of the old shard")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		drained := make(chan error)
		go func() { drained <- i.Drain(ctx) }()
		synctest.Wait()
		b.lose(0)
		if err := <-drained; err != nil {
			t.Errorf("drain: %v", err)
		}
	})
}

// TestNoForwarderWithoutTheLease takes the lease of a shard away, whose rows
// others then may forward, and no other instance.
func TestNoForwarderWithoutTheLease(t *testing.T) {
	onShards(t, 3, func(t *testing.T, b *board, i *instance) {
		b.lose(0)
		synctest.Wait()
		if b.owner(1) == nil {
			t.Fatal("it has no other shard instead")
		}
		b.shards[0].append("of the old shard")
		b.shards[1].append("of the new shard")
		i.Appended(1)
		time.Sleep(time.Minute)
		if at := i.at("of the old shard"); !at.IsZero() {
			t.Error("forwarded without the lease")
		}
		if i.at("of the new shard").IsZero() {
			t.Error("the new shard is not forwarded")
		}
		b.free(0)
		wait(time.Second)
		if i.at("of the old shard").IsZero() {
			t.Error("not forwarded, though it has no owner")
		}
	})
}

// TestLogsWhatItCannotTakeOver owns a shard, and is refused the others: then no other
// line would say why events of an instance that is gone wait.
func TestLogsWhatItCannotTakeOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		b := newBoard(2)
		b.lost = errors.New("no connection is left")
		b.log = slog.New(slog.NewTextHandler(&text, nil))
		i := newInstance(t, b)
		time.Sleep(time.Minute)
		i.stop()
		if n := strings.Count(text.String(), b.lost.Error()); n < 1 || n > 10 {
			t.Errorf("logged %d times in a minute, want a few:\n%s", n, &text)
		}
	})
}

// TestDrainsItsOwnShard waits for the rows of its own shard, not of others.
func TestDrainsItsOwnShard(t *testing.T) {
	onShards(t, 2, func(t *testing.T, b *board, i *instance) {
		b.leases[1] = new(lease) // another instance
		b.shards[1].append("of another")
		b.shards[0].append("own")
		if err := i.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if i.at("own").IsZero() || !i.at("of another").IsZero() {
			t.Error("want only its own event forwarded")
		}
		b.lose(0)
		synctest.Wait()
		b.shards[0].append("stays")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := i.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("drain without a lease: %v", err)
		}
	})
}

// TestStatusSaysWhatFailsInAnAbandonedShard, while nothing of the own shard does.
func TestStatusSaysWhatFailsInAnAbandonedShard(t *testing.T) {
	onShards(t, 2, func(t *testing.T, b *board, i *instance) {
		i.down()
		b.shards[1].append("acme/order-1")
		time.Sleep(time.Minute)
		if got := i.Status(); !got.Owns || !got.Fails {
			t.Errorf("after a minute: %+v, want that a destination fails", got)
		}
		time.Sleep(10 * time.Minute)
		if got := i.Status(); got.Failing != 1 || got.Failed == nil || i.Failing("acme") != 1 {
			t.Errorf("after eleven minutes: %+v, and %d of the tenant", got, i.Failing("acme"))
		}
		unmoved := errors.New("no right to change the table")
		b.shards[1].mu.Lock()
		b.shards[1].fail = func(op string) error {
			if op == "defer" {
				return unmoved
			}
			return nil
		}
		b.shards[1].mu.Unlock()
		time.Sleep(time.Minute)
		if got := i.Status(); !errors.Is(got.Unmoved, unmoved) {
			t.Errorf("when its rows can't be deferred: %+v", got)
		}
		b.lose(1)
		synctest.Wait()
		if got := i.Status(); got != (outbox.Status{Owns: true}) {
			t.Errorf("when it has lost the shard: %+v", got)
		}
	})
}
