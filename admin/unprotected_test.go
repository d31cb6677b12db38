package admin_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/timer"
)

// TestUnprotectedIsShown on the first page and in the API, as soon as it is known.
func TestUnprotectedIsShown(t *testing.T) {
	t.Parallel()
	var u timer.Unprotected
	s := admin.New(quiet, admin.Options{Monitor: watched(t), Timers: seeded(t), Unprotected: func() timer.Unprotected { return u }})
	if _, got, _ := ask(t, s, "GET", "/v1/stats"); got["unprotected"] != nil {
		t.Errorf("before it is known: %v", got)
	}
	if _, body := get(s, "/"); strings.Contains(body, "database were lost") {
		t.Errorf("before it is known:\n%s", body)
	}
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	u = timer.Unprotected{Timers: 7, More: true, Oldest: noon.Add(-time.Hour), Before: noon, At: noon.Add(time.Hour)}
	_, got, _ := ask(t, s, "GET", "/v1/stats")
	want := map[string]any{
		"timers": 7.0, "more": true, "oldest": "2026-01-02T11:00:00.000Z", "before": "2026-01-02T12:00:00.000Z", "countedAt": "2026-01-02T13:00:00.000Z",
	}
	if diff := cmp.Diff(any(want), got["unprotected"]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, body := get(s, "/"); !strings.Contains(body, "7 or more; ") || !strings.Contains(body, "only a backup protects them") {
		t.Errorf("the page is\n%s", body)
	}
}
