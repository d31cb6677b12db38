package kafka

import (
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
)

// newTestGroup returns a group that has one partition, and a subscription to it.
func newTestGroup(t *testing.T) (*group, *assignment) {
	t.Helper()
	b := New(Options{}, slog.New(slog.DiscardHandler))
	g := &group{
		broker: b, id: groupID{"reader", "topic"}, users: 1,
		parts: make(map[partition]*assignment),
	}
	g.waiting = sync.NewCond(&g.mu)
	g.assigned(t.Context(), nil, map[string][]int32{"topic": {0}})
	return g, g.parts[partition{"topic", 0}]
}

// fetched returns records of a partition, at these offsets, as a poll does.
func fetched(number int32, value string, offsets ...int64) kgo.Fetches {
	p := kgo.FetchPartition{Partition: number}
	for _, offset := range offsets {
		p.Records = append(p.Records, &kgo.Record{Topic: "topic", Partition: number, Offset: offset, Value: []byte(value)})
	}
	return kgo.Fetches{{Topics: []kgo.FetchTopic{{Topic: "topic", Partitions: []kgo.FetchPartition{p}}}}}
}

// takeAll takes all deliveries from the queue.
func takeAll(g *group) (taken []*delivery) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for d := g.next(); d != nil; d = g.next() {
		taken = append(taken, d)
	}
	return taken
}

// offsetsOf returns the offsets of deliveries.
func offsetsOf(deliveries []*delivery) (offsets []int64) {
	for _, d := range deliveries {
		offsets = append(offsets, d.record.Offset)
	}
	slices.Sort(offsets)
	return offsets
}

// TestLowestOpenOffset acks in any order, with gaps in the log and cuts of it.
func TestLowestOpenOffset(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		g, p := newTestGroup(t)
		next := random.Int64N(10)
		for range 200 {
			switch random.IntN(20) {
			case 0:
				next += 1_000_000_000_000
			case 1:
				next -= random.Int64N(min(next, 20) + 1)
			case 2, 3, 4, 5:
				g.receive(fetched(0, "x", next, next+1, next+3))
				next += 4
			}
			takeAll(g)
			for _, d := range p.open { // one of them
				if d.state == inFlight && random.IntN(3) > 0 {
					d.Ack()
				}
				break
			}
			want := p.next
			for offset := range p.open {
				want = min(want, offset)
			}
			if random.IntN(2) == 0 && p.low() != want {
				t.Fatalf("the position is %d, want %d", p.low(), want)
			}
		}
	}
}

// TestLogThatWasCutKeepsWhatIsBelow cuts a log at an offset while records below it are not
// handled. They are still delivered, and the position waits for them.
func TestLogThatWasCutKeepsWhatIsBelow(t *testing.T) {
	t.Parallel()
	g, p := newTestGroup(t)
	g.receive(fetched(0, "old", 10, 11, 12, 13, 14))
	had := takeAll(g)
	had[0].Ack()
	had[4].Return()

	g.receive(fetched(0, "new", 13, 14))
	if p.low() != 11 {
		t.Errorf("the position is %d, want 11, which is not handled", p.low())
	}
	for i, stale := range []bool{1: false, 2: false, 3: true, 4: true} {
		if i > 0 && had[i].Stale() != stale {
			t.Errorf("delivery of %d: stale %v, want %v", 10+i, had[i].Stale(), stale)
		}
	}
	had[3].Ack() // its record was cut off
	had[1].Ack()
	had[2].Ack()
	if p.low() != 13 {
		t.Errorf("the position is %d, want 13, the first new one", p.low())
	}
	again := takeAll(g)
	if got := offsetsOf(again); cmp.Diff([]int64{13, 14}, got) != "" {
		t.Errorf("%v are delivered, want the new 13 and 14", got)
	}
	for _, d := range again {
		if string(d.record.Value) != "new" {
			t.Errorf("got %s %d", d.record.Value, d.record.Offset)
		}
		d.Ack()
	}
	if p.low() != 15 || p.busy() {
		t.Errorf("the position is %d, and something is in flight: %v", p.low(), p.busy())
	}
}

// TestLargeRecordsFillTheQueue polls few records that take much memory.
func TestLargeRecordsFillTheQueue(t *testing.T) {
	t.Parallel()
	g, _ := newTestGroup(t)
	large := strings.Repeat("x", 1<<20)
	for offset := range int64(200) {
		if !g.capacity() {
			break
		}
		g.receive(fetched(0, large, offset))
	}
	if n := len(g.queue); n > 64 {
		t.Errorf("%d MiB wait for a window that takes none", n)
	}
	takeAll(g)
	if !g.capacity() || g.queuedBytes != 0 {
		t.Errorf("%d bytes wait after all were taken", g.queuedBytes)
	}
}

// TestPartitionThatIsRevokedIsNotDelivered tries to take from a partition that goes to
// another member, while its messages in flight are waited for.
func TestPartitionThatIsRevokedIsNotDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := newTestGroup(t)
		g.receive(fetched(0, "old", 10, 11))
		had := g.take(t.Context())
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			g.revoked(t.Context(), nil, map[string][]int32{"topic": {0}})
		}()
		synctest.Wait()
		if taken := takeAll(g); len(taken) > 0 {
			t.Errorf("offset %d of a partition that goes to another member was delivered", taken[0].record.Offset)
		}
		g.mu.Lock() // no commit: there is no member
		g.parts[partition{"topic", 0}].committed = 10
		g.mu.Unlock()
		had.Return()
		<-gone
		if len(g.parts) > 0 || !had.Stale() {
			t.Errorf("%d partitions are left", len(g.parts))
		}
	})
}
