package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
	"github.com/event-service-agent/timer-service/verify/crash/history"
)

var noon = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

// timersOf returns so many timers, one each 10 ms from noon on, which were accepted
// a second before.
func timersOf(count int) (all []scheduled) {
	for n := range count {
		due := noon.Add(time.Duration(n) * 10 * time.Millisecond)
		key := timer.Key{TenantID: "acme", ServiceCallID: timer.ServiceCallID(fmt.Sprintf("sc-%d", n))}
		all = append(all, scheduled{key: key, due: due, accepted: due.Add(-time.Second)})
	}
	return all
}

// event returns the event of a timer, as the broker kept it so long after the due time.
func event(s scheduled, commandID string, late time.Duration) history.Message {
	e := timer.DueTimeReached{Key: s.key, CommandID: commandID, DueAt: s.due, ReachedAt: s.due}
	return history.Message{Topic: history.EventsTopic(string(s.key.TenantID)), At: s.due.Add(late), Body: envelope.Reached(e)}
}

// historyOf has one event of each timer, a millisecond late.
func historyOf(all []scheduled) (h history.History) {
	for _, s := range all {
		h.Messages = append(h.Messages, event(s, "a", time.Millisecond))
	}
	return h
}

func TestJudgesChaos(t *testing.T) {
	t.Parallel()
	all := timersOf(3)
	for name, test := range map[string]struct {
		change func(h *history.History)
		want   ChaosResult
		broken bool
	}{
		"all are on time": {func(*history.History) {}, ChaosResult{}, false},
		"one is lost":     {func(h *history.History) { h.Messages = h.Messages[:2] }, ChaosResult{Lost: 1}, true},
		"one is a microsecond early": {
			func(h *history.History) { h.Messages[1] = event(all[1], "a", -time.Microsecond) }, ChaosResult{Early: 1}, true,
		},
		"one has a second id": {
			func(h *history.History) { h.Messages = append(h.Messages, event(all[1], "b", time.Second)) }, ChaosResult{SecondIDs: 1}, true,
		},
		"one has a second id, which is early too": {
			func(h *history.History) { h.Messages = append(h.Messages, event(all[1], "b", -time.Second)) }, ChaosResult{Early: 1, SecondIDs: 1}, true,
		},
		"one is kept twice": {
			func(h *history.History) { h.Messages = append(h.Messages, h.Messages[1]) }, ChaosResult{Repeated: 1}, false,
		},
		"one was published three times, and kept once": {func(h *history.History) {
			id := envelope.EventID(timer.DueTimeReached{Key: all[0].key, CommandID: "a", DueAt: all[0].due})
			h.Attempts = map[string]history.Attempt{id: {Published: 3}}
		}, ChaosResult{Repeated: 2}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := historyOf(all)
			test.change(&h)
			test.want.Timers = len(all)
			got, _, err := judgeChaos(all, h)
			if err != nil || got != test.want {
				t.Errorf("judged %+v, %v; want %+v", got, err, test.want)
			}
			if got.Broken() != test.broken {
				t.Errorf("broken is %v, want %v", got.Broken(), test.broken)
			}
		})
	}
	t.Run("a message of another timer is an error", func(t *testing.T) {
		t.Parallel()
		if _, _, err := judgeChaos(all[:2], historyOf(all)); err == nil {
			t.Error("judged a message of a timer that was not scheduled")
		}
	})
}

func TestLatenessCountsFromTheAcceptance(t *testing.T) {
	t.Parallel()
	all := timersOf(1)
	all[0].accepted = all[0].due.Add(time.Minute)
	h := history.History{Messages: []history.Message{event(all[0], "a", time.Minute+5*time.Millisecond)}}
	_, shots, err := judgeChaos(all, h)
	if err != nil {
		t.Fatal(err)
	}
	if got := p99(shots, from(noon)); got != 5 {
		t.Errorf("p99 is %v ms, want 5", got)
	}
}

func TestClean(t *testing.T) {
	t.Parallel()
	const limit = 20 * time.Millisecond
	all := timersOf(500) // of five seconds
	for name, test := range map[string]struct {
		change func(messages []history.Message) []history.Message
		want   string
	}{
		"all are on time": {func(m []history.Message) []history.Message { return m }, "0s true"},
		"those of the first two seconds fire after three": {func(m []history.Message) []history.Message {
			for n := range 200 {
				m[n].At = noon.Add(3 * time.Second)
			}
			return m
		}, "2.9s true"},
		"those of the first two seconds are a second late": {func(m []history.Message) []history.Message {
			for n := range 200 {
				m[n].At = all[n].due.Add(time.Second)
			}
			return m
		}, "2.9s true"},
		"one of 500 is late by more than the limit": {func(m []history.Message) []history.Message {
			m[150].At = all[150].due.Add(time.Second)
			return m
		}, "0s true"},
		"one that is overdue at the beginning is lost": {func(m []history.Message) []history.Message { return m[1:] }, "0s false"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, shots, err := judgeChaos(all, history.History{Messages: test.change(historyOf(all).Messages)})
			if err != nil {
				t.Fatal(err)
			}
			after, ok := clean(shots, noon.Add(100*time.Millisecond), limit)
			if got := fmt.Sprint(after, ok); got != test.want {
				t.Errorf("clean after %s, want %s", got, test.want)
			}
		})
	}
}
