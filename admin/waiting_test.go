package admin_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/timer"
)

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
