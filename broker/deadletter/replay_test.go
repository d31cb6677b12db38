package deadletter_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/deadletter"
	"github.com/event-service-agent/timer-service/timer"
)

// replay replays dead letters and returns what became of them.
func replay(t *testing.T, s *model, f deadletter.Filter) (outcomes, deadletter.Summary) {
	t.Helper()
	results := outcomes{}
	sum, err := deadletter.New(s).Replay(t.Context(), f, results.tell)
	if err != nil {
		t.Fatal(err)
	}
	return results, sum
}

func TestReplayPublishesTheOriginal(t *testing.T) {
	t.Parallel()
	s := (&model{routing: shared}).put("a", "deadLetterReplays", "1", "deadLetterCount", "2",
		"correlationId", "req-7", "traceparent", parent, "Nats-Rollup", "all", "x-secret", "token")
	results, sum := replay(t, s, deadletter.Filter{})
	if diff := cmp.Diff(outcomes{"a": deadletter.Replayed}, results); diff != "" || sum.Done != 1 {
		t.Errorf("replayed %d (-want +got):\n%s", sum.Done, diff)
	}
	if len(s.published) != 1 || len(s.kept) != 0 {
		t.Fatalf("%d published, %d dead letters left, want one and none", len(s.published), len(s.kept))
	}
	got := s.published[0]
	if got.topic != "timer.commands" || string(got.Payload) != `{"deadLetter":"a"}` || got.UUID == "" || got.UUID == "a" || got.UUID == "command-a" {
		t.Errorf("published %s to %s as %s", got.Payload, got.topic, got.UUID)
	}
	want := message.Metadata{
		"deadLetterReplays": "2", "deadLetterFirstAt": "2026-01-01T11:00:00.000Z", "correlationId": "req-7", "traceparent": parent,
	}
	if diff := cmp.Diff(want, got.Metadata); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
}

// A recovery reads the original again, and must leave it out: the replay counts.
func TestReplayLeavesAMarkOfTheOriginal(t *testing.T) {
	t.Parallel()
	s := (&model{routing: shared}).put("a").put("b", "deadLetterPosition", "")
	if _, err := deadletter.New(keeper{s}).Replay(t.Context(), deadletter.Filter{}, nil); err != nil {
		t.Fatal(err)
	}
	if len(s.published) != 3 || len(s.kept) != 0 || s.published[2].topic != "svc.acme.dlq" {
		t.Fatalf("published %+v, %d dead letters left", s.published, len(s.kept))
	}
	mark := s.published[2].Metadata
	for header, want := range map[string]string{"operatorMark": "replayed", "deadLetterTopic": "timer.commands", "deadLetterPosition": "7", "tenantId": "acme"} {
		if mark.Get(header) != want {
			t.Errorf("%s is %q, want %q", header, mark.Get(header), want)
		}
	}
}

// Killed between the publish and the removal, it leaves the dead letter, and does the
// same again: under the same id, which the broker drops.
func TestReplayThatIsKilledLosesNothing(t *testing.T) {
	t.Parallel()
	s := (&model{routing: shared}).put("a").put("b")
	s.publish = func(string, *message.Message) error {
		if len(s.kept) < 2 {
			t.Error("a dead letter was removed before its original was published")
		}
		return nil
	}
	s.remove = func(context.Context) error { return errDown }
	results := outcomes{}
	sum, err := deadletter.New(s).Replay(t.Context(), deadletter.Filter{}, results.tell)
	if !errors.Is(err, errDown) || !strings.Contains(err.Error(), `("a" and 1 more: replayed, but may still be there)`) {
		t.Errorf("error %v", err)
	}
	if sum.Done != 0 || len(results) != 0 || len(s.kept) != 2 || len(s.published) != 2 {
		t.Errorf("%+v, results %v, %d dead letters left, %d published", sum, results, len(s.kept), len(s.published))
	}
	s.remove, s.publish = nil, nil
	replay(t, s, deadletter.Filter{})
	if len(s.kept) != 0 || len(s.published) != 4 || s.published[0].UUID != s.published[2].UUID {
		t.Errorf("%d dead letters left, %d published, the first one as %s and %s", len(s.kept), len(s.published), s.published[0].UUID, s.published[2].UUID)
	}
}

// Two replays are one to the broker only if they are the same.
func TestReplaysOfOthersHaveOtherIDs(t *testing.T) {
	t.Parallel()
	s := &model{routing: shared}
	s.put("a").put("b").put("a", "deadLetterReplays", "1").put("a", broker.MetaTopic, "svc.other.dlq").
		put("a", "deadLetterLastAt", "2026-01-01T12:00:00.001Z").put("a")
	s.kept[5].Payload = []byte("another")
	replay(t, s, deadletter.Filter{})
	ids := map[string]bool{}
	for _, p := range s.published {
		ids[p.UUID] = true
	}
	if len(ids) != 6 {
		t.Errorf("%d ids of 6 replays", len(ids))
	}
}

func TestReplayRefusesWhatCanNotWork(t *testing.T) {
	t.Parallel()
	s := (&model{routing: shared}).put("whole").put("cut", "deadLetterTruncated", "true").
		put("twice", "deadLetterReplays", "2").put("thrice", "deadLetterReplays", "3").put("large").put("last")
	s.publish = func(_ string, msg *message.Message) error {
		if strings.Contains(string(msg.Payload), "large") {
			return fmt.Errorf("%w: too large", broker.ErrRefused)
		}
		return nil
	}
	results, sum := replay(t, s, deadletter.Filter{})
	want := outcomes{
		"whole": "replayed", "twice": "replayed", "last": "replayed",
		"cut":    "refused: its body was cut, so it is not the original",
		"thrice": "refused: it was replayed 3 times already",
		"large":  "refused: " + broker.ErrRefused.Error() + ": too large",
	}
	if diff := cmp.Diff(want, results); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"cut", "thrice", "large"}, s.left()); diff != "" || sum.Done != 3 || sum.Refused != 3 {
		t.Errorf("%+v, left (-want +got):\n%s", sum, diff)
	}
}

func TestReplayEndsWhenTheBrokerIsDown(t *testing.T) {
	t.Parallel()
	s := (&model{routing: shared}).put("a").put("b").put("c")
	s.publish = func(string, *message.Message) error {
		if len(s.published) == 1 {
			return errDown
		}
		return nil
	}
	results := outcomes{}
	sum, err := deadletter.New(s).Replay(t.Context(), deadletter.Filter{}, results.tell)
	if !errors.Is(err, errDown) || !strings.Contains(err.Error(), `"b", which stays`) {
		t.Errorf("error %v", err)
	}
	if diff := cmp.Diff([]string{"b", "c"}, s.left()); diff != "" || sum.Done != 1 || results["a"] != "replayed" {
		t.Errorf("%+v, results %v, left (-want +got):\n%s", sum, results, diff)
	}
}

// Brokers guard topics: a dead letter goes to the commands of its own tenant, or nowhere.
func TestReplayGoesToTheCommandsOfItsTenant(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		routing broker.Routing
		tenant  timer.TenantID
		from    string // topic of the original, as the dead letter says
		to      string // empty if refused
	}{
		{"one topic for all", shared, "acme", "timer.commands", "timer.commands"},
		{"a topic that is no more", shared, "acme", "svc.acme.timer", "timer.commands"},
		{"no topic", shared, "acme", "", "timer.commands"},
		{"a topic of the service's own", shared, "acme", "svc.acme.dlq", "timer.commands"},
		{"of no tenant, one topic for all", shared, timer.NoTenant, "elsewhere", "timer.commands"},
		{"a topic per tenant", perTenant, "acme", "svc.acme.timer", "svc.acme.timer"},
		{"a topic per tenant, once shared", perTenant, "acme", "timer.commands", "svc.acme.timer"},
		{"another tenant's topic", perTenant, "acme", "svc.victim.timer", "svc.acme.timer"},
		{"of no tenant, from a topic that names none", perTenant, timer.NoTenant, "svc.-.timer", "svc.-.timer"},
		{"of no tenant, but from a tenant's topic", perTenant, timer.NoTenant, "svc.victim.timer", ""},
		{"of no tenant, from no topic", perTenant, timer.NoTenant, "", ""},
		{"of no tenant, from another topic", perTenant, timer.NoTenant, "svc.acme.serviceCall", ""},
		{"of no tenant, from an empty name", perTenant, timer.NoTenant, "svc..timer", ""},
		{"of no tenant, from two names", perTenant, timer.NoTenant, "svc.a.b.timer", ""},
		{"of no tenant, from all topics", perTenant, timer.NoTenant, "svc.*.timer", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := (&model{routing: tt.routing}).put("a", broker.MetaTopic, tt.routing.DeadLettersOf(tt.tenant), "deadLetterTopic", tt.from)
			results, _ := replay(t, s, deadletter.Filter{Tenant: tt.tenant})
			got := ""
			for _, p := range s.published {
				got = p.topic
			}
			if got != tt.to || len(s.published)+len(s.kept) != 1 {
				t.Errorf("went to %q, want %q; results %v", got, tt.to, results)
			}
		})
	}
}

// A dead letter that was published when the context ends is removed too, and no other.
func TestReplayEndsCleanlyWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := (&model{routing: shared}).put("a").put("b").put("c")
		s.publish = func(string, *message.Message) error {
			if len(s.published) == 1 {
				cancel()
			}
			return nil
		}
		s.remove = func(ctx context.Context) error { return ctx.Err() }
		sum, err := deadletter.New(s).Replay(ctx, deadletter.Filter{}, nil)
		if !errors.Is(err, context.Canceled) || sum.Done != 2 || len(s.published) != 2 {
			t.Errorf("%v, %+v, %d published", err, sum, len(s.published))
		}
		if diff := cmp.Diff([]string{"c"}, s.left()); diff != "" {
			t.Errorf("left (-want +got):\n%s", diff)
		}

		// A removal that hangs ends after a while.
		ctx, cancel = context.WithCancel(t.Context())
		s.remove = func(ctx context.Context) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		}
		_, err = deadletter.New(s).Replay(ctx, deadletter.Filter{}, nil)
		if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "may still be there") || len(s.kept) != 1 {
			t.Errorf("error %v, %d dead letters left", err, len(s.kept))
		}
	})
}
