package poller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// A poll is one question to the guard.
type poll struct {
	elapsed time.Duration // since noon, by the clock that is never set
	wrong   time.Duration // by how much the clock, and the world, is off that
	holds   bool
}

// A reference is a second source of the time.
type reference func(context.Context, poll) (time.Time, error)

func right(_ context.Context, l poll) (time.Time, error) { return noon.Add(l.elapsed), nil }

func same(_ context.Context, l poll) (time.Time, error) { return noon.Add(l.elapsed + l.wrong), nil }

func mute(context.Context, poll) (time.Time, error) { return time.Time{}, errors.New("no answer") }

func never(context.Context, poll) (time.Time, error) {
	return time.Time{}, fmt.Errorf("no clock of its own: %w", errors.ErrUnsupported)
}

// until says one thing before the elapsed time given, and another from then on.
func until(at time.Duration, before, then reference) reference {
	return func(ctx context.Context, l poll) (time.Time, error) {
		if l.elapsed < at {
			return before(ctx, l)
		}
		return then(ctx, l)
	}
}

const (
	second = time.Second
	minute = time.Minute
	hour   = time.Hour
)

func TestGuard(t *testing.T) {
	t.Parallel()
	start := poll{0, 0, false}
	tests := []struct {
		name  string
		ref   reference
		polls []poll
	}{
		{"a poll after a long time is no jump", nil, []poll{start, {hour, 0, false}, {999 * hour, 0, false}}},
		{"a minute is no jump", nil, []poll{start, {second, minute, false}}},
		{"more than a minute is, however soon the poll", nil, []poll{start, {time.Millisecond, minute + time.Millisecond, true}}},
		{"and however late", nil, []poll{start, {99 * hour, minute + time.Millisecond, true}}},
		{"a step back is no jump", nil, []poll{start, {second, -hour, false}, {2 * second, -hour, false}}},
		{
			"what stepped back and comes forward again is asked about", right,
			[]poll{start, {second, -hour, false}, {2 * second, 0, false}},
		},
		{
			"a jump holds for five seconds when there is no reference", nil,
			[]poll{start, {0, hour, true}, {second, hour, true}, {5*second - 1, hour, true}, {5 * second, hour, false}, {6 * second, hour, false}},
		},
		{"nor one that has a clock", never, []poll{start, {0, hour, true}, {4 * second, hour, true}, {5 * second, hour, false}}},
		{"or one that is silent", mute, []poll{{0, 0, true}, {5 * second, 0, false}, {6 * second, hour, true}, {11 * second, hour, false}}},
		{"a reference that agrees lets go at once", same, []poll{start, {0, hour, false}}},
		{
			"a reference that disagrees holds on", right,
			[]poll{start, {0, hour, true}, {5 * second, hour, true}, {minute, hour, true}, {9 * hour, hour, true}},
		},
		{
			"a reference that disagreed and falls silent still holds", until(second, right, mute),
			[]poll{start, {0, hour, true}, {5 * second, hour, true}, {minute, hour, true}, {minute + second, 0, false}},
		},
		{
			"a reference that is silent and then disagrees holds on", until(3*second, mute, right),
			[]poll{{0, 0, true}, {5 * second, 0, false}, {6 * second, hour, true}, {minute, hour, true}},
		},
		{"a clock that is set right again goes on at once", right, []poll{start, {0, hour, true}, {second, 0, false}}},
		{
			"a second jump is held too", nil,
			[]poll{start, {0, hour, true}, {5 * second, hour, false}, {6 * second, 3 * hour, true}},
		},
		{
			"a second jump during a hold makes it no shorter", nil,
			[]poll{start, {0, hour, true}, {second, 3 * hour, true}, {4 * second, 3 * hour, true}, {5 * second, 3 * hour, false}},
		},
		{
			"a resume from suspend goes on at once", until(second, right, same), // elapsed stood still
			[]poll{start, {second, 8 * hour, false}, {2 * second, 8 * hour, false}},
		},
		{"and within five seconds without a reference", nil, []poll{start, {second, 8 * hour, true}, {6 * second, 8 * hour, false}}},
		{"a clock that is wrong at the start holds", right, []poll{{0, hour, true}, {minute, hour, true}, {minute + second, 0, false}}},
		{"for want of an answer no longer than five seconds", mute, []poll{{0, hour, true}, {5 * second, hour, false}}},
		{"and is believed if there is no other", never, []poll{{0, hour, false}}},
		{"a clock that is behind at the start is believed", right, []poll{{0, -hour, false}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var at poll
			g := guard{log: slog.New(slog.DiscardHandler), elapsed: func() time.Duration { return at.elapsed }}
			if tt.ref != nil {
				g.reference = func(ctx context.Context) (time.Time, error) { return tt.ref(ctx, at) }
			}
			for _, at = range tt.polls {
				if got := g.wait(t.Context(), noon.Add(at.elapsed+at.wrong)) > 0; got != at.holds {
					t.Errorf("after %v, the clock off by %v: holds = %v, want %v", at.elapsed, at.wrong, got, at.holds)
				}
			}
		})
	}
}
