package admin

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/event-service-agent/timer-service/internal/logbuf"
	"github.com/event-service-agent/timer-service/timer"
)

// TestAuditRemembersTheLastActions: two hundred of them, newest first, and the log has
// each.
func TestAuditRemembersTheLastActions(t *testing.T) {
	t.Parallel()
	log := new(logbuf.Buffer)
	a := &audit{log: slog.New(slog.NewTextHandler(log, nil))}
	ctx := withAccess(t.Context(), access{who: "10.0.0.1"})
	for i := range 250 {
		a.add(ctx, "cancel timer", fmt.Sprintf("acme.order-%d", i), "done", nil)
	}
	a.add(ctx, "discard dead letter", "acme \"1\"", "", huma.Error404NotFound("no such\ndead letter"))
	got := a.recent()
	if len(got) != 200 || got[0].Result != "refused: no such\ndead letter" || got[1].Target != "acme.order-249" || got[199].Target != "acme.order-51" || got[1].Who != "10.0.0.1" {
		t.Errorf("%d: %+v ... %+v", len(got), got[0], got[len(got)-1])
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 251 || !strings.Contains(lines[250], `msg="an operator changed something" who=10.0.0.1 what="discard dead letter" target="acme \"1\"" result="refused: no such\ndead letter"`) {
		t.Errorf("%d lines, the last: %s", len(lines), lines[len(lines)-1])
	}
}

// TestAuditSaysWhatWasRefusedAndWhatFailed, and what was done before it failed.
func TestAuditSaysWhatWasRefusedAndWhatFailed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		result string
		err    error
		want   string
	}{
		{"", nil, "done"},
		{"2 of 3", nil, "2 of 3"},
		{"", errOtherTenant, "refused: " + errOtherTenant.Error()},
		{"0 of 1", noParked("17"), `refused: there is no such parked event: "17"`},
		{"", timer.Invalid(timer.ReasonBadField, "no tenant"), "refused: invalid: no tenant"},
		{"", errNoBroker, "failed: " + errNoBroker.Error()},
		{"400 timers deleted", errors.New("disk full"), "failed: disk full; 400 timers deleted"},
	} {
		a := &audit{log: slog.New(slog.DiscardHandler)}
		a.add(t.Context(), "anything", "acme", test.result, test.err)
		if got := a.recent()[0].Result; got != test.want {
			t.Errorf("%q, %v: %q, want %q", test.result, test.err, got, test.want)
		}
	}
}
