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

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/timer"
)

// A board is an outbox in shards, in memory, that instances share.
type board struct {
	mu     sync.Mutex
	shards []*ledger
	leads  map[int]*lead
	fail   error        // of who wants to lead
	lost   error        // of who wants to lead what was left behind
	log    *slog.Logger // of the instances
}

func newBoard(shards int) *board {
	b := &board{leads: make(map[int]*lead), log: slog.New(slog.DiscardHandler)}
	for range shards {
		b.shards = append(b.shards, new(ledger))
	}
	return b
}

type lead struct {
	*ledger
	board *board
	shard int
	lost  chan struct{}
}

func (b *board) take(wants func(shard int) bool) (*lead, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fail != nil {
		return nil, b.fail
	}
	for n, l := range b.shards {
		if b.leads[n] == nil && wants(n) {
			b.leads[n] = &lead{l, b, n, make(chan struct{})}
			return b.leads[n], nil
		}
	}
	return nil, nil //nolint:nilnil // as the port has it
}

func (b *board) Own(context.Context) (outbox.Lead, error) {
	l, err := b.take(func(int) bool { return true })
	if l == nil {
		return nil, errors.Join(err, errors.New("all are led"))
	}
	return l, nil
}

func (b *board) Orphan(context.Context) (outbox.Lead, error) {
	if b.lost != nil {
		return nil, b.lost
	}
	l, err := b.take(func(n int) bool {
		rows, _ := b.shards[n].Head(context.Background(), 0, 1)
		return len(rows) > 0
	})
	if l == nil {
		return nil, err
	}
	return l, nil
}

func (l *lead) Shard() int { return l.shard }

func (l *lead) Lost() <-chan struct{} { return l.lost }

func (l *lead) Release() {
	l.board.mu.Lock()
	defer l.board.mu.Unlock()
	if l.board.leads[l.shard] == l {
		delete(l.board.leads, l.shard)
	}
}

// lose takes the lead of a shard away, and lets nobody have it.
func (b *board) lose(shard int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.leads[shard].lost)
	b.leads[shard] = new(lead)
}

// free lets others lead a shard again.
func (b *board) free(shard int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.leads, shard)
}

func (b *board) leader(shard int) *lead {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.leads[shard]
}

// sent remembers what was published, and when.
type sent struct {
	mu   sync.Mutex
	ids  map[string]time.Time
	fail error // of every publish
}

func (s *sent) Close() error { return nil }

func (s *sent) Publish(_ string, messages ...*message.Message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return s.fail
	}
	for _, m := range messages {
		if s.ids == nil {
			s.ids = make(map[string]time.Time)
		}
		s.ids[string(m.Payload)] = time.Now()
	}
	return nil
}

func (s *sent) refuse(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

func (s *sent) at(id string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ids[id]
}

// An instance runs a relay until it is stopped.
type instance struct {
	*outbox.Relay
	sent sent
	stop func() error
}

func newInstance(t *testing.T, b *board) *instance {
	t.Helper()
	i := new(instance)
	i.Relay = outbox.NewRelay(b, func(table outbox.Table) *outbox.Forwarder {
		return outbox.NewForwarder(table, &i.sent, func(*message.Message) string { return "events" },
			timer.ClockFunc(time.Now), b.log, outbox.ForwarderOptions{})
	}, b.log)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- i.Run(ctx) }()
	i.stop = func() error {
		cancel()
		return <-ended
	}
	return i
}

func (i *instance) stops(t *testing.T) {
	t.Helper()
	if err := i.stop(); err != nil {
		t.Error(err)
	}
}

func TestEachInstanceForwardsItsOwnShard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBoard(4)
		first := newInstance(t, b)
		synctest.Wait()
		second := newInstance(t, b)
		synctest.Wait()
		for shard, i := range []*instance{first, second} {
			id := fmt.Sprint("event-", shard)
			b.shards[shard].append(id)
			began := time.Now()
			i.Appended(1)
			synctest.Wait()
			if at := i.sent.at(id); at != began {
				t.Errorf("%s was forwarded at %v, want at once", id, at)
			}
		}
		first.stops(t)
		second.stops(t)
		if len(b.leads) > 0 {
			t.Errorf("after the stop %d shards are led", len(b.leads))
		}
	})
}

// TestOthersForwardWhatIsLeftBehind has rows in a shard that nobody leads.
func TestOthersForwardWhatIsLeftBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBoard(4)
		i := newInstance(t, b)
		synctest.Wait()
		began := time.Now()
		for _, shard := range []int{1, 2, 3} {
			b.shards[shard].append(fmt.Sprint("event-", shard))
		}
		time.Sleep(time.Second)
		synctest.Wait()
		for _, shard := range []int{1, 2, 3} {
			if took := i.sent.at(fmt.Sprint("event-", shard)).Sub(began); took < 0 || took > time.Second {
				t.Errorf("shard %d was forwarded after %v, want within a second", shard, took)
			}
			if b.leader(shard) != nil {
				t.Errorf("shard %d is empty and still led", shard)
			}
		}
		i.stops(t)
	})
}

// TestNoLeadWaits has more shards that nobody leads than an instance forwards at a
// time: it leaves the others to others.
func TestNoLeadWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBoard(8)
		i := newInstance(t, b)
		synctest.Wait()
		i.sent.refuse(errors.New("the broker is down"))
		for shard := range b.shards {
			b.shards[shard].append("event")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := len(b.leads); n != 5 {
			t.Errorf("it leads %d shards, want its own and 4 others", n)
		}
		i.stops(t)
		if len(b.leads) > 0 {
			t.Errorf("after the stop %d shards are led", len(b.leads))
		}
	})
}

// TestDrainGoesOnWithTheNextShard loses the shard while somebody waits for it.
func TestDrainGoesOnWithTheNextShard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBoard(2)
		i := newInstance(t, b)
		synctest.Wait()
		i.sent.refuse(errors.New("the broker is down"))
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
		i.stops(t)
	})
}

// TestNobodyForwardsWithoutTheLead takes the lead of a shard away, whose rows
// others then may forward, and nobody else.
func TestNobodyForwardsWithoutTheLead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBoard(3)
		i := newInstance(t, b)
		synctest.Wait()
		b.lose(0)
		synctest.Wait()
		if b.leader(1) == nil {
			t.Fatal("it has no other shard instead")
		}
		b.shards[0].append("of the old shard")
		b.shards[1].append("of the new shard")
		i.Appended(1)
		time.Sleep(time.Minute)
		if at := i.sent.at("of the old shard"); !at.IsZero() {
			t.Error("forwarded without the lead")
		}
		if i.sent.at("of the new shard").IsZero() {
			t.Error("the new shard is not forwarded")
		}
		b.free(0)
		time.Sleep(time.Second)
		synctest.Wait()
		if i.sent.at("of the old shard").IsZero() {
			t.Error("not forwarded, though nobody leads it")
		}
		i.stops(t)
	})
}

func TestALeadIsWantedForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBoard(1)
		b.fail = errors.New("the database is down")
		i := newInstance(t, b)
		time.Sleep(time.Hour)
		b.mu.Lock()
		b.fail = nil
		b.mu.Unlock()
		time.Sleep(time.Second + time.Millisecond)
		synctest.Wait()
		if b.leader(0) == nil {
			t.Error("nobody leads")
		}
		i.stops(t)
	})
}

// TestTellsOfWhatItCannotTakeOver leads its own shard, and is refused the others:
// then nothing else would tell why events of an instance that is gone wait.
func TestTellsOfWhatItCannotTakeOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		b := newBoard(2)
		b.lost = errors.New("no connection is left")
		b.log = slog.New(slog.NewTextHandler(&text, nil))
		i := newInstance(t, b)
		time.Sleep(time.Minute)
		i.stops(t)
		if n := strings.Count(text.String(), b.lost.Error()); n < 1 || n > 10 {
			t.Errorf("told %d times in a minute, want a few:\n%s", n, &text)
		}
	})
}

func TestFatalErrorEndsTheRelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBoard(1)
		b.fail = fmt.Errorf("%w: replaced", timer.ErrFatal)
		i := newInstance(t, b)
		synctest.Wait()
		if err := i.stop(); !errors.Is(err, timer.ErrFatal) {
			t.Errorf("run: %v, want ErrFatal", err)
		}
	})
}

// TestRelayDrainsItsOwnShard waits for the rows of its own shard, not of others.
func TestRelayDrainsItsOwnShard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBoard(2)
		i := newInstance(t, b)
		synctest.Wait()
		b.leads[1] = new(lead) // another instance
		b.shards[1].append("of another")
		b.shards[0].append("own")
		if err := i.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if i.sent.at("own").IsZero() || !i.sent.at("of another").IsZero() {
			t.Error("want its own forwarded, and nothing else")
		}
		b.lose(0)
		synctest.Wait()
		b.shards[0].append("stays")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := i.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("drain without a lead: %v", err)
		}
		i.stops(t)
	})
}
