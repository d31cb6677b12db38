package poller

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"
)

func TestGuard(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	steady := func(ahead time.Duration) func(context.Context) (time.Time, error) {
		return func(context.Context) (time.Time, error) { return noon.Add(ahead), nil }
	}
	silent := func(context.Context) (time.Time, error) { return time.Time{}, errors.New("no answer") }

	type look struct {
		at    time.Duration // by the clock, after noon, when the last look was expected at noon
		holds bool
	}
	tests := []struct {
		name      string
		reference func(context.Context) (time.Time, error)
		looks     []look
	}{
		{"a minute late is no jump", nil, []look{{time.Minute, false}}},
		{"a step back is no jump", nil, []look{{-time.Hour, false}, {-time.Hour + time.Second, false}}},
		{
			"a jump holds for five seconds when there is no reference", nil,
			[]look{{time.Hour, true}, {time.Hour + time.Second, true}, {time.Hour + 5*time.Second, false}, {time.Hour + 6*time.Second, false}},
		},
		{
			"a jump holds for five seconds when the reference is silent", silent,
			[]look{{time.Hour, true}, {time.Hour + 4*time.Second, true}, {time.Hour + 5*time.Second, false}},
		},
		{
			"a reference that agrees lets go at once", steady(time.Hour),
			[]look{{time.Hour, false}},
		},
		{
			"a reference that disagrees holds on", steady(0),
			[]look{{time.Hour, true}, {time.Hour + 5*time.Second, true}, {time.Hour + time.Minute, true}},
		},
		{
			"a reference that disagreed and falls silent still holds", onceThenSilent(noon),
			[]look{{time.Hour, true}, {time.Hour + 5*time.Second, true}, {time.Hour + time.Minute, true}, {time.Second, false}},
		},
		{
			"a clock that is set right again goes on at once", steady(0),
			[]look{{time.Hour, true}, {time.Second, false}},
		},
		{
			"a second jump during a hold is held too", nil,
			[]look{{time.Hour, true}, {time.Hour + 5*time.Second, false}, {3 * time.Hour, true}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := guard{log: slog.New(slog.DiscardHandler), reference: tt.reference}
			if g.hold(t.Context(), noon) > 0 {
				t.Fatal("holds at the first look")
			}
			for _, l := range tt.looks {
				if got := g.hold(t.Context(), noon.Add(l.at)) > 0; got != l.holds {
					t.Errorf("at noon%+v holds = %v, want %v", l.at, got, l.holds)
				}
			}
		})
	}
}

// onceThenSilent is a reference that answers the first question only.
func onceThenSilent(t time.Time) func(context.Context) (time.Time, error) {
	asked := false
	return func(context.Context) (time.Time, error) {
		if asked {
			return time.Time{}, errors.New("no answer")
		}
		asked = true
		return t, nil
	}
}
