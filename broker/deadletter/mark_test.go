package deadletter_test

import (
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/deadletter"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// A keeper is a model that keeps messages after their ack, as far as marks need that.
type keeper struct{ *model }

func (keeper) History() (broker.History, string) { return struct{ broker.History }{}, "" }

// TestADecisionIsReadAsItWasLeft, when the mark was published an hour after the decision.
func TestADecisionIsReadAsItWasLeft(t *testing.T) {
	t.Parallel()
	pause := timer.Pause{TenantID: "acme", Since: noon.Add(-time.Minute), Until: noon.Add(time.Hour), By: "ann"}
	paused := timer.Decision{TenantID: "acme", Kind: timer.DecidedFiring, Pause: pause, At: noon}
	endless := timer.Decision{Kind: timer.DecidedFiring, Pause: timer.Pause{Since: noon}, At: noon}
	resumed := timer.Decision{TenantID: "acme", Kind: timer.DecidedFiring, At: noon}
	forgotten := timer.Decision{TenantID: "acme", Kind: timer.DecidedForgotten, At: noon}
	for name, tt := range map[string]struct {
		left  timer.Decision
		want  []timer.Decision
		topic string
	}{
		"paused":     {paused, []timer.Decision{paused}, "svc.acme.dlq"},
		"all paused": {endless, []timer.Decision{endless}, "svc._.dlq"},
		"resumed":    {resumed, []timer.Decision{resumed}, "svc.acme.dlq"},
		"forgotten":  {forgotten, []timer.Decision{forgotten, resumed}, "svc.acme.dlq"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &model{routing: shared}
			if err := deadletter.Leave(t.Context(), keeper{s}, tt.left)[0]; err != nil || len(s.published) != 1 || s.published[0].topic != tt.topic {
				t.Fatalf("published %+v, %v", s.published, err)
			}
			for i := range tt.want {
				tt.want[i].Published = true
			}
			got := deadletter.DecisionsOf(broker.Stored{Message: s.published[0].Message, At: noon.Add(time.Hour)})
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("decisions (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAMarkOfNoTenantDecidesNothing: anyone may write one, and PostgreSQL takes no such text.
func TestAMarkOfNoTenantDecidesNothing(t *testing.T) {
	t.Parallel()
	for tenant, want := range map[string]int{"acme": 2, "": 2, "\xff": 0, "a b": 0, "_": 0} {
		m := message.NewMessage("id", nil)
		m.Metadata = message.Metadata{"type": "OperatorMark", "operatorMark": "forgotten", "tenantId": tenant}
		if got := deadletter.DecisionsOf(broker.Stored{Message: m, At: noon}); len(got) != want {
			t.Errorf("%q: %+v, want %d", tenant, got, want)
		}
	}
}

// TestAMarkWithoutItsTimeCountsWhenItWasStored: marks of earlier versions have none, and anyone
// may write one of the far future.
func TestAMarkWithoutItsTimeCountsWhenItWasStored(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]time.Time{
		"": noon, "yesterday": noon, "2026-01-01T12:01:00.001Z": noon, "2199-01-01T00:00:00.000Z": noon, "2026-01-01T12:01:00.000Z": noon.Add(time.Minute), "2026-01-01T11:00:00.000Z": noon.Add(-time.Hour),
	} {
		m := message.NewMessage("id", nil)
		m.Metadata = message.Metadata{"type": "OperatorMark", "operatorMark": "paused", "tenantId": "acme", "operatorMarkAt": header, "operatorMarkBy": "ann"}
		got := deadletter.DecisionsOf(broker.Stored{Message: m, At: noon.Add(time.Microsecond)})
		if len(got) != 1 || !got[0].At.Equal(want) || !got[0].Pause.Since.Equal(want) || got[0].Pause.By != "ann" {
			t.Errorf("%q: %+v, want it at %v", header, got, want)
		}
		m.Metadata.Set(envelope.HeaderMark, "discarded")
		if got := deadletter.DecisionsOf(broker.Stored{Message: m, At: noon}); got != nil {
			t.Errorf("a dead letter that was discarded: %+v", got)
		}
	}
}
