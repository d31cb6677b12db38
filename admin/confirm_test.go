package admin_test

import (
	"html"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/envelope"
)

// TestWhatComesWhileAPersonDecidesStays: the page that asks has counted the dead letters, and a
// minute passes until the answer.
func TestWhatComesWhileAPersonDecidesStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := channel(t)
		s := admin.New(quiet, admin.Options{Monitor: watched(t), Timers: seeded(t), Broker: b})
		refuseAt(t, b, envelope.FormatTime(time.Now()), "acme", "seen", "bad_field", `{}`, 0)
		_, body := get(s, "/do/discard?filter=tenant%3Dacme")
		field := regexp.MustCompile(`name="filter" value="([^"]*)"`).FindStringSubmatch(body)
		if field == nil || !strings.Contains(body, "1 dead letter of acme") {
			t.Fatal(body)
		}
		time.Sleep(time.Minute)
		refuseAt(t, b, envelope.FormatTime(time.Now()), "acme", "not-seen", "bad_field", `{}`, 0)
		time.Sleep(time.Minute)
		if _, body = submit(s, "/do/discard", url.Values{"filter": {html.UnescapeString(field[1])}}); !strings.Contains(body, "1 dead letter discarded") {
			t.Error(body)
		}
		if _, left := get(s, "/v1/dead-letters?tenant=acme"); strings.Contains(left, `"seen"`) || !strings.Contains(left, `"not-seen"`) {
			t.Error(left)
		}
	})
}
