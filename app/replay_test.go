package app_test

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker/deadletter"
	"github.com/event-service-agent/timer-service/timer"
)

// deadLetters returns the service for the dead letters of the broker.
func (b *bench) deadLetters() *deadletter.Service {
	return deadletter.New(b.broker.(deadletter.Broker))
}

// deadLetter waits for the one dead letter that acme has.
func (b *bench) deadLetter() deadletter.Message {
	b.t.Helper()
	for {
		var found []deadletter.Message
		if _, err := b.deadLetters().List(b.t.Context(), deadletter.Filter{Tenant: "acme"}, func(m deadletter.Message) error {
			found = append(found, m)
			return nil
		}); err != nil {
			b.t.Fatal(err)
		}
		if len(found) == 1 {
			return found[0]
		}
		time.Sleep(time.Millisecond)
	}
}

// replay replays all dead letters of acme.
func (b *bench) replay(want deadletter.Summary) {
	b.t.Helper()
	got, err := b.deadLetters().Replay(b.t.Context(), deadletter.Filter{Tenant: "acme"}, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		b.t.Fatalf("replay (-want +got):\n%s", diff)
	}
}

// A command that is still invalid becomes a dead letter after each replay, and then stays.
func TestReplaysOfAnInvalidCommandAreCounted(t *testing.T) {
	inBubbles(t, func(t *testing.T, b *bench) {
		b.serve(b.store, app.Options{PollingInterval: time.Hour, Horizon: time.Minute})
		b.schedule("order-1", time.Now().Add(10*time.Hour))
		first := b.deadLetter()
		for replays := range deadletter.MaxReplays + 1 {
			got, now := b.deadLetter(), time.Now()
			if got.Count != replays+1 || got.Replays != replays || got.Reason != timer.ReasonBeyondHorizon || got.Tenant != "acme" {
				t.Errorf("dead letter %+v, want it for time %d", got, replays+1)
			}
			if !got.FirstAt.Equal(first.LastAt) || got.LastAt.After(now) || now.Sub(got.LastAt) > time.Second {
				t.Errorf("first failed at %v, last at %v; want %v and about %v", got.FirstAt, got.LastAt, first.LastAt, now)
			}
			if !bytes.Equal(got.Body, first.Body) || replays > 0 && got.ID == first.ID {
				t.Errorf("the dead letter is %s with %s, want another one with %s", got.ID, got.Body, first.Body)
			}
			time.Sleep(time.Minute)
			if replays < deadletter.MaxReplays {
				b.replay(deadletter.Summary{Done: 1})
			}
		}
		b.replay(deadletter.Summary{Refused: 1})
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := b.deadLetter(); got.Replays != deadletter.MaxReplays {
			t.Errorf("the dead letter is %+v", got)
		}
	})
}

// A command that has become valid fires when it is due.
func TestReplayOfAValidCommandFires(t *testing.T) {
	inBubbles(t, func(t *testing.T, b *bench) {
		_, stop := b.serveUntil(b.store, app.Options{PollingInterval: time.Hour, Horizon: time.Minute})
		due := time.Now().Add(10 * time.Minute)
		b.schedule("order-1", due)
		b.deadLetter()
		stop()
		b.serve(b.store, app.Options{PollingInterval: time.Hour, Horizon: time.Hour})
		b.replay(deadletter.Summary{Done: 1})
		if e := b.next(); e.ServiceCallID != "order-1" || !e.DueAt.Equal(timer.RoundUp(due)) || e.Lateness() != 0 {
			t.Errorf("event %+v, want it at %v", e, due)
		}
		b.replay(deadletter.Summary{})
		b.quietFor(time.Hour)
	})
}
