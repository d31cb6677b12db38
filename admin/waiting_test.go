package admin_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// deny has a destination deny all events in the outbox of a store.
func deny(t *testing.T, store *sqlite.Store, destination string) {
	t.Helper()
	ctx, table := t.Context(), store.Outbox().Table
	rows, err := table.Head(ctx, 0, 10)
	if err != nil || len(rows) == 0 {
		t.Fatal(rows, err)
	}
	for _, row := range rows {
		must(t, table.Defer(ctx, outbox.Deferral{Place: row.Place, Destination: destination, Reason: "permission denied", RetryAt: time.Now()}))
	}
}

// TestDestinationThatFailsIsNamed on the overview and in the API, to people who may see all tenants.
func TestDestinationThatFailsIsNamed(t *testing.T) {
	t.Parallel()
	s, store := operated(t, func(o *admin.Options) { o.Token, o.History = "", admin.NewHistory(new(app.Counters), nil) })
	if _, got, _ := ask(t, s, "GET", "/v1/stats"); got["failing"] != nil {
		t.Errorf("before: %v", got["failing"])
	}
	err := store.Update(t.Context(), func(tx timer.Tx) error {
		return tx.Emit(t.Context(), timer.DueTimeReached{Key: timer.Key{TenantID: "acme", ServiceCallID: "call"}, CommandID: "c", DueAt: fired, ReachedAt: fired})
	})
	must(t, err)
	deny(t, store, "svc.acme.serviceCall")
	want := []any{map[string]any{"destination": "svc.acme.serviceCall", "events": 1.0, "oldest": "2026-01-01T00:00:00.000Z", "reason": "permission denied"}}
	if _, got, _ := ask(t, s, "GET", "/v1/stats"); !cmp.Equal(got["failing"], any(want)) {
		t.Errorf("failing: %v", cmp.Diff(any(want), got["failing"]))
	}
	_, body := get(s, "/")
	for _, text := range []string{"svc.acme.serviceCall takes no events: permission denied.", "1 waits, the first since"} {
		if !strings.Contains(body, text) {
			t.Errorf("the overview lacks %q:\n%s", text, body)
		}
	}
}

// TestWhatWaitsIsCounted in the API, of all and of a tenant, and on the pages.
func TestWhatWaitsIsCounted(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	counts := func(_ context.Context, tenant timer.TenantID) ([]timer.InboxCount, error) {
		if tenant == "beta" {
			return nil, nil
		}
		return []timer.InboxCount{
			{TenantID: "acme", Reason: timer.WaitQuota, Messages: 3, Bytes: 300, Oldest: noon},
			{TenantID: "acme", Reason: timer.WaitFailed, Messages: 4, Bytes: 400, Oldest: noon.Add(-time.Hour)},
		}, nil
	}
	s := admin.New(quiet, admin.Options{Monitor: watched(t), Timers: seeded(t), Waiting: counts})
	want := map[string]any{"overQuota": 3.0, "failed": 4.0, "bytes": 700.0, "oldest": "2026-01-02T11:00:00.000Z"}
	for path, want := range map[string]any{"/v1/stats": want, "/v1/tenants/acme": want, "/v1/tenants/beta": nil} {
		if _, got, _ := ask(t, s, "GET", path); !cmp.Equal(want, got["waiting"]) {
			t.Errorf("%s: %v, want %v", path, got["waiting"], want)
		}
	}
	for path, want := range map[string]string{"/": "3 over the quota of their tenant, 4 whose handling fails", "/tenants": "3 commands over its quota, 4 whose handling fails"} {
		if _, body := get(s, path); !strings.Contains(body, want) {
			t.Errorf("%s does not say %q:\n%s", path, want, body)
		}
	}
}

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
