package deadletter_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker/deadletter"
)

// many returns a model with dead letters l-1 to l-n.
func many(n int, seeks bool) *model {
	s := &model{routing: shared, seeks: seeks}
	for i := range n {
		s.put(fmt.Sprint("l-", i+1))
	}
	return s
}

// TestPagesGoOnWhereTheLastOneEnded, though dead letters are removed meanwhile. Where the broker
// can seek, a page visits its own dead letters, and few more.
func TestPagesGoOnWhereTheLastOneEnded(t *testing.T) {
	t.Parallel()
	for _, seeks := range []bool{true, false} {
		s := many(100, seeks)
		var got []string
		f := deadletter.Filter{Limit: 10}
		for range 20 {
			s.visited = 0
			sum, err := deadletter.New(s).List(t.Context(), f, func(m deadletter.Message) error {
				got = append(got, m.ID)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if seeks && s.visited > f.Limit+5 {
				t.Errorf("a page visits %d dead letters", s.visited)
			}
			if f.After = sum.Next; f.After == "" {
				break
			}
			if seeks { // the one behind which the next page begins
				s.kept = slices.DeleteFunc(s.kept, func(m *message.Message) bool { return m.UUID == got[len(got)-1] })
			}
		}
		if len(got) != 100 || got[0] != "l-1" || got[99] != "l-100" || f.After != "" {
			t.Errorf("seeks: %v: %d dead letters, next %q: %v", seeks, len(got), f.After, got)
		}
	}
}

// TestActionsGoOnPageByPage until all is done, and end at their limit.
func TestActionsGoOnPageByPage(t *testing.T) {
	t.Parallel()
	for _, seeks := range []bool{true, false} {
		s := many(100, seeks)
		for i := range 50 { // every other one was replayed three times, and stays
			s.kept[2*i].Metadata.Set("deadLetterReplays", "3")
		}
		f, done, refused := deadletter.Filter{Limit: 7}, 0, 0
		for range 30 {
			sum, err := deadletter.New(s).Replay(t.Context(), f, nil)
			if err != nil || sum.Done+sum.Refused > f.Limit {
				t.Fatalf("%+v, %v", sum, err)
			}
			done, refused = done+sum.Done, refused+sum.Refused
			if f.After = sum.Next; f.After == "" {
				break
			}
		}
		if done != 50 || refused != 50 || f.After != "" || len(s.kept) != 50 {
			t.Errorf("seeks: %v: %d replayed, %d refused, next %q, %d left", seeks, done, refused, f.After, len(s.kept))
		}
	}
}

// TestOneDeadLetterIsFoundWhereItIs: by its Ref the broker visits no other one.
func TestOneDeadLetterIsFoundWhereItIs(t *testing.T) {
	t.Parallel()
	s := many(100, true)
	var ref string
	if _, err := deadletter.New(s).List(t.Context(), deadletter.Filter{IDs: []string{"l-90"}}, func(m deadletter.Message) error {
		ref = m.Ref()
		return nil
	}); err != nil || ref != "l-90@90" {
		t.Fatalf("%q, %v", ref, err)
	}
	for want := range 2 {
		s.visited = 0
		sum, err := deadletter.New(s).Discard(t.Context(), deadletter.Filter{IDs: []string{ref}, Limit: 1}, nil)
		if err != nil || sum != (deadletter.Summary{Done: 1 - want, Seen: 1}) || s.visited > 3 || len(s.kept) != 99 {
			t.Errorf("%+v, %v after %d visited, %d left", sum, err, s.visited, len(s.kept))
		}
	}
	_, err := deadletter.New(many(3, false)).List(t.Context(), deadletter.Filter{After: "l-4"}, func(deadletter.Message) error { return nil })
	if !errors.Is(err, deadletter.ErrGone) {
		t.Errorf("behind one that is gone: %v", err)
	}
}
