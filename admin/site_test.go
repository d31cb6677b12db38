package admin_test

import (
	"fmt"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// hostile is shown as text, wherever it comes from. It is a valid id.
const hostile = `"><img/src=x/onerror=hacked()>'<script>hacked()</script>`

// site returns the options of a dashboard with timers in each state, dead letters and parked
// events, with hostile text in them.
func site(t *testing.T) (opt admin.Options) {
	t.Helper()
	limits, err := quota.New(quota.Config{Default: quota.Limits{Live: 100_000}, Tenants: map[timer.TenantID]quota.Limits{"acme": {Accept: quota.Rate{PerSecond: 2000}, Horizon: time.Hour}}}, timer.ClockFunc(time.Now), quota.Options{})
	must(t, err)
	b := channel(t)
	_, store := operated(t, func(o *admin.Options) {
		o.Token, o.Monitor, o.Broker, o.Quotas, o.History = "", watched(t, broken), b, limits, admin.NewHistory(new(app.Counters), nil)
		opt = *o
	})
	ctx, now := t.Context(), time.Now()
	timers := []timer.ScheduleTimer{command("acme", "done", fired, 7)}
	for i := range 60 {
		c := command("acme", fmt.Sprintf("order-%02d", i), now.Add(time.Duration(i+5)*time.Minute), 7)
		c.CorrelationID, c.Data = hostile, strconv.Quote(hostile+strings.Repeat(" long", 50))
		timers = append(timers, c)
	}
	if _, err := store.Schedule(ctx, fired, timers...); err != nil {
		t.Fatal(err)
	}
	err = store.Update(ctx, func(tx timer.Tx) error {
		if _, err := tx.Reach(ctx, fired, 10, nil); err != nil { // without its event, as when that was published
			return err
		}
		return tx.Emit(ctx, timer.DueTimeReached{Key: timer.Key{TenantID: "acme", ServiceCallID: "hostile"}, CommandID: "c", CorrelationID: hostile, DueAt: fired, ReachedAt: fired})
	})
	must(t, err)
	park(t, store, hostile)
	refuse(t, b, "acme", "letter-1", "unknown_type", hostile, 0)
	refuse(t, b, "acme", hostile, hostile, hostile, 0)
	return opt
}

// shown are pages of a [site], and a text that each has.
var shown = map[string]string{
	"/":                                  "Lateness, last 5 minutes",
	"/timers":                            "soonest first",
	"/timers?tenant=acme":                "order-00",
	"/timers?tenant=unknown":             "No timer matches",
	"/timers?tenant=acme&prefix=order-0": "Cancel timers that begin with order-0",
	"/timer?tenant=acme&call=done":       "acknowledged",
	"/timer?tenant=acme&call=order-1":    "Parked",
	"/timer?tenant=acme&call=order-2":    "will not fire",
	"/timer?tenant=acme&call=order-3":    "overdue",
	"/timers?tenant=acme&prefix=order-":  "Postpone them",
	"/timer?tenant=acme&call=order-9":    "there is no such timer",
	"/timers?tenant=acme&correlation=" + url.QueryEscape(hostile): "Cancel timers with",
	"/search?q=nothing":                    "No timer carries",
	"/search?q=req-7":                      "Timers that carry the correlation id",
	"/search?q=acme":                       "If this is a tenant",
	"/tenants":                             "globex",
	"/quotas":                              "2000",
	"/search?q=of-acme":                    "Dead letters with this correlation id",
	"/dead-letters":                        "unknown_type",
	"/parked":                              "too large",
	"/nodes":                               "this one",
	"/audit":                               "What people changed",
	"/do/cancel?tenant=acme&call=order-01": "1 timer to cancel: order-01",
	"/do/cancel-prefix?tenant=acme&prefix=order-0": "10 timers to cancel",
	"/do/fire-prefix?tenant=acme&prefix=order-0":   "10 timers to fire now",
	"/do/postpone?tenant=acme&call=order-01":       "By how much",
	"/do/discard-parked?filter=tenant%3Dacme":      "2 parked events of acme",
	"/do/replay?filter=tenant%3Dacme":              "2 dead letters of acme",
	"/do/forget?tenant=globex":                     "Type the name of the tenant",
	"/do/nothing":                                  "there is no such action",
}

// TestPagesShowWhatThereIs, and hostile text as text. Links stay below the prefix. A server
// that only reads shows no way to change something.
func TestPagesShowWhatThereIs(t *testing.T) {
	t.Parallel()
	opt := site(t)
	opt.Prefix = "/below"
	s := admin.New(quiet, opt)
	opt.ReadOnly = true
	readOnly := admin.New(quiet, opt)
	links := regexp.MustCompile(`(?:href|src|action)="([^"]*)"`)
	for path, says := range shown {
		_, body := get(s, opt.Prefix+path)
		if !strings.Contains(body, says) {
			t.Errorf("%s: no %q in\n%s", path, says, body)
		}
		if strings.Contains(body, "<img/src") || strings.Contains(body, "<script>") {
			t.Errorf("%s: hostile text is no text:\n%s", path, body)
		}
		for _, link := range links.FindAllStringSubmatch(body, -1) {
			if !strings.HasPrefix(link[1], "/below/") && !strings.HasPrefix(link[1], "#") {
				t.Errorf("%s: a link around the prefix: %s", path, link[1])
			}
		}
		if _, body := get(readOnly, opt.Prefix+path); strings.Contains(body, "/do/") || strings.Contains(body, `method="post"`) {
			t.Errorf("%s: a way to change something:\n%s", path, body)
		}
	}
}

// serve returns the address of a server, until the test ends.
func serve(t *testing.T, opt admin.Options) string {
	t.Helper()
	server := httptest.NewServer(admin.New(quiet, opt))
	t.Cleanup(server.Close)
	return server.URL + opt.Prefix
}
