package kafka

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
)

// alone returns a group that has one partition, and a subscription to it.
func alone(t *testing.T) (*group, *part) {
	t.Helper()
	b := New(Options{}, slog.New(slog.DiscardHandler))
	s := &subscription{broker: b, more: make(chan struct{}, 1)}
	g := &group{
		broker: b, id: groupID{"reader", "topic"}, subs: []*subscription{s},
		room:   make(chan struct{}, 1),
		idle:   make(chan struct{}, 1),
		parts:  make(map[partition]*part),
		paused: make(map[partition]bool),
	}
	g.assigned(t.Context(), nil, map[string][]int32{"topic": {0}})
	return g, g.parts[partition{"topic", 0}]
}

// polled returns records of a partition, at these offsets, as a poll does.
func polled(number int32, value string, offsets ...int64) kgo.Fetches {
	p := kgo.FetchPartition{Partition: number}
	for _, offset := range offsets {
		p.Records = append(p.Records, &kgo.Record{Topic: "topic", Partition: number, Offset: offset, Value: []byte(value)})
	}
	return kgo.Fetches{{Topics: []kgo.FetchTopic{{Topic: "topic", Partitions: []kgo.FetchPartition{p}}}}}
}

// waits returns the offsets of deliveries that no window has.
func waits(g *group) (offsets []int64) {
	for _, p := range g.parts {
		for _, d := range p.queue {
			offsets = append(offsets, d.record.Offset)
		}
	}
	slices.Sort(offsets)
	return offsets
}

// TestLogThatWasCutKeepsWhatIsBelow cuts a log at an offset below which records
// are not handled yet. They are still delivered, and the position waits for them.
func TestLogThatWasCutKeepsWhatIsBelow(t *testing.T) {
	t.Parallel()
	g, p := alone(t)
	g.receive(polled(0, "old", 10, 11, 12, 13, 14))
	had := g.taken(p.sub) // a window has all of them
	had[0].Ack()
	had[4].Return()

	g.receive(polled(0, "new", 13, 14))
	if offset, _ := g.parts[p.partition].mark(); offset != 11 {
		t.Errorf("the position is %d, want 11, which is not handled", offset)
	}
	if got := waits(g); cmp.Diff([]int64{13, 14}, got) != "" {
		t.Errorf("%v wait, want the new 13 and 14", got)
	}
	for i, stale := range []bool{1: false, 2: false, 3: true, 4: true} {
		if i > 0 && had[i].Stale() != stale {
			t.Errorf("delivery of %d: stale %v, want %v", 10+i, had[i].Stale(), stale)
		}
	}
	had[3].Ack() // of a record that is no more
	had[1].Ack()
	had[2].Ack()
	if offset, above := g.parts[p.partition].mark(); offset != 13 || len(above) > 0 {
		t.Errorf("the position is %d and %v, want 13, the first new one", offset, above)
	}
	for _, d := range g.taken(p.sub) {
		if string(d.Body()) != "new" {
			t.Errorf("got %s %d", d.Body(), d.record.Offset)
		}
		d.Ack()
	}
	if offset, _ := g.parts[p.partition].mark(); offset != 15 || g.parts[p.partition].given != 0 {
		t.Errorf("the position is %d, %d are given", offset, g.parts[p.partition].given)
	}
}

// TestLogThatBeganAnewWhileNobodyLookedIsRead reads offsets below the position
// that is kept: what was handled above it is of another log.
func TestLogThatBeganAnewWhileNobodyLookedIsRead(t *testing.T) {
	t.Parallel()
	g, p := alone(t)
	p.learn(100, ranges{{102, 105}}.encode(100))
	g.receive(polled(0, "new", 0, 102, 103))
	if got := waits(g); cmp.Diff([]int64{0, 102, 103}, got) != "" {
		t.Errorf("%v wait, want all", got)
	}

	g, p = alone(t)
	p.learn(100, ranges{{102, 105}}.encode(100))
	g.receive(polled(0, "old", 100, 102, 105))
	if got := waits(g); cmp.Diff([]int64{100, 105}, got) != "" {
		t.Errorf("%v wait, want those that were not handled", got)
	}
}

// TestEveryBatchThatIsSteppedOverIsTold meets two in one poll.
func TestEveryBatchThatIsSteppedOverIsTold(t *testing.T) {
	t.Parallel()
	g, _ := alone(t)
	member, err := kgo.NewClient()
	if err != nil {
		t.Fatal(err)
	}
	defer member.Close()
	large := func(number int32, offset int64) kgo.FetchPartition {
		return kgo.FetchPartition{Partition: number, Err: &kgo.ErrDecompressTooLarge{Topic: "topic", Partition: number, Offset: offset, NextOffset: offset + 1}}
	}
	err = g.trouble(member, kgo.Fetches{{Topics: []kgo.FetchTopic{{Topic: "topic", Partitions: []kgo.FetchPartition{large(0, 41), large(1, 57)}}}}})
	if !errors.Is(err, kgo.ErrMaxDecompress) || !strings.Contains(err.Error(), "offset 41") || !strings.Contains(err.Error(), "offset 57") {
		t.Errorf("told %v, want both places", err)
	}
}

// TestLargeRecordsFillTheQueue polls few records that take much memory.
func TestLargeRecordsFillTheQueue(t *testing.T) {
	t.Parallel()
	g, p := alone(t)
	large := strings.Repeat("x", 1<<20)
	for offset := range int64(200) {
		if !g.hungry() {
			break
		}
		g.receive(polled(0, large, offset))
	}
	if n := len(p.queue); n > 128 {
		t.Errorf("%d MiB wait for a window that takes none", n)
	}
	for range 2 {
		for _, d := range g.taken(p.sub) {
			d.Ack()
		}
	}
	if !g.hungry() {
		t.Errorf("%d wait, and there is no room", len(p.queue))
	}
}

// TestPartitionThatGoesToOthersIsNotSharedAnew has a subscription join while what
// is in flight of a revoked partition is waited for.
func TestPartitionThatGoesToOthersIsNotSharedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p := alone(t)
		g.users = 1
		g.receive(polled(0, "old", 10))
		had := g.taken(p.sub)
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			g.revoked(t.Context(), nil, map[string][]int32{"topic": {0}})
		}()
		synctest.Wait()
		other := &subscription{broker: g.broker, more: make(chan struct{}, 1)}
		g.join(other)
		if p.sub != nil {
			t.Error("a partition that goes to others was given to a subscription")
		}
		had[0].Return()
		<-gone
		if len(g.parts) > 0 {
			t.Errorf("%d partitions are left", len(g.parts))
		}
	})
}
