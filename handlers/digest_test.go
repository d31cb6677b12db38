package handlers

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/internal/logbuf"
	"github.com/event-service-agent/timer-service/timer"
)

func TestDigestLogsTheFirstAtOnceAndTheNumberAfterAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log logbuf.Buffer
		to := slog.New(slog.NewTextHandler(&log, nil))
		d := newDigest(func(attrs ...any) { to.WarnContext(t.Context(), "refused", attrs...) })
		lines := func() (lines []string) {
			for line := range strings.Lines(log.Take()) {
				_, text, _ := strings.Cut(strings.TrimSpace(line), "level=")
				lines = append(lines, text)
			}
			return lines
		}
		expect := func(what string, want ...string) {
			t.Helper()
			if got := lines(); strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("%s: got %q, want %q", what, got, want)
			}
		}
		acme, beta := kind{"acme", timer.ReasonBadTime}, kind{"beta", timer.ReasonBadTime}
		for i := range 3 {
			d.note(acme, "message_id", fmt.Sprint("m-", i))
		}
		d.note(beta, "message_id", "m-3")
		expect("at once",
			"WARN msg=refused tenant_id=acme reason=bad_time count=1 message_id=m-0",
			"WARN msg=refused tenant_id=beta reason=bad_time count=1 message_id=m-3")
		time.Sleep(time.Minute)
		synctest.Wait()
		expect("after a minute", "WARN msg=refused tenant_id=acme reason=bad_time count=3 message_id=m-0")
		time.Sleep(time.Hour)
		expect("an hour without any")

		d.note(acme)
		d.note(acme)
		d.flush()
		expect("the next minute, until a stop", "WARN msg=refused tenant_id=acme reason=bad_time count=1", "WARN msg=refused tenant_id=acme reason=bad_time count=2")

		for i := range 10 * maxKinds {
			d.note(kind{tenant: timer.TenantID(fmt.Sprint("tenant-", i))})
		}
		if n := len(lines()); n != maxKinds {
			t.Errorf("%d lines for ten times as many tenants, want %d", n, maxKinds)
		}
		d.flush()
		expect("of many tenants", "WARN msg=refused tenant_id=* count=450")
	})
}
