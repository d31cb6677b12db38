package digest_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/internal/digest"
	"github.com/event-service-agent/timer-service/internal/logbuf"
)

func TestDigestLogsTheFirstAtOnceAndTheNumberAfterAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log logbuf.Buffer
		to := slog.New(slog.NewTextHandler(&log, nil))
		d := digest.New(func(attrs ...any) { to.WarnContext(t.Context(), "refused", attrs...) })
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
		acme, beta := []any{"tenant_id", "acme", "reason", "bad_time"}, []any{"tenant_id", "beta", "reason", "bad_time"}
		for i := range 3 {
			d.Note(1, acme, "message_id", fmt.Sprint("m-", i))
		}
		d.Note(1, beta, "message_id", "m-3")
		expect("at once",
			"WARN msg=refused tenant_id=acme reason=bad_time count=1 message_id=m-0",
			"WARN msg=refused tenant_id=beta reason=bad_time count=1 message_id=m-3")
		time.Sleep(time.Minute)
		synctest.Wait()
		expect("after a minute", "WARN msg=refused tenant_id=acme reason=bad_time count=3 message_id=m-0")
		time.Sleep(time.Hour)
		expect("an hour without any")

		d.Note(1, acme)
		d.Note(1, acme)
		d.Flush()
		expect("the next minute, until a stop", "WARN msg=refused tenant_id=acme reason=bad_time count=1", "WARN msg=refused tenant_id=acme reason=bad_time count=2")

		for i := range 500 {
			d.Note(1, []any{"tenant_id", fmt.Sprint("tenant-", i)})
		}
		if n := len(lines()); n != 50 {
			t.Errorf("%d lines for ten times as many tenants, want %d", n, 50)
		}
		d.Flush()
		expect("of many tenants", "WARN msg=refused tenant_id=* count=450")
	})
}
