package admin

import (
	"context"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// manyParked has a number of parked events of one reason, and then one of another.
type manyParked struct {
	timer.Reader
	events int64
}

func (m manyParked) Parked(_ context.Context, _ timer.TenantID, after int64, limit int) (page []timer.ParkedEvent, err error) {
	for seq := after + 1; seq <= m.events+1 && len(page) < limit; seq++ {
		reason := "Too large"
		if seq > m.events {
			reason = "no such topic"
		}
		page = append(page, timer.ParkedEvent{Seq: seq, Reason: reason, CorrelationID: "req-7", ParkedAt: time.Unix(seq, 0)})
	}
	return page, nil
}

// TestSelectionOfParkedEventsGoesOn behind events that do not fit, in bounded reads.
func TestSelectionOfParkedEventsGoesOn(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		of    selection
		limit int
		pages int
		found int
	}{
		"all":                     {selection{}, 100, 100, 9951},
		"one behind all others":   {selection{Reason: "TOPIC"}, 100, 1, 1},
		"one behind many reads":   {selection{Reason: "topic"}, 10, 10, 1},
		"from a time on":          {selection{From: time.Unix(9900, 0)}, 100, 1, 52},
		"of a correlation id":     {selection{Correlation: "req-7", Reason: "too large", From: time.Unix(9901, 0)}, 25, 6, 50},
		"of another":              {selection{Correlation: "req-8"}, 100, 1, 0},
		"a page that is full":     {selection{From: time.Unix(9902, 0)}, 50, 3, 50},
		"more than one full page": {selection{From: time.Unix(9002, 0)}, 500, 2, 950},
	} {
		pages, found, after := 0, 0, ""
		for {
			page, next, err := test.of.parked(t.Context(), manyParked{events: 9950}, after, test.limit)
			if err != nil || len(page) > test.limit || next != "" && next == after {
				t.Fatal(name, len(page), next, err)
			}
			pages, found, after = pages+1, found+len(page), next
			if after == "" {
				break
			}
		}
		if pages != test.pages || found != test.found {
			t.Errorf("%s: %d events in %d pages, want %d in %d", name, found, pages, test.found, test.pages)
		}
	}
}
