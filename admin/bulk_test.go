package admin_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/broker/gochannel"
	"github.com/event-service-agent/timer-service/timer"
)

// bulk asks on the page of a deed, then does it, and returns both answers without their
// frame.
func bulk(t *testing.T, s *admin.Server, deed, filter, token string) (asks, answers string) {
	t.Helper()
	show := func(code int, body string) string {
		_, body, _ = strings.Cut(body, `<main`)
		return fmt.Sprint(code, " ", body)
	}
	asks = show(get(s, "/do/"+deed+"?"+url.Values{"filter": {filter}}.Encode(), with(token)...))
	return asks, show(submit(s, "/do/"+deed, url.Values{"filter": {filter}}, with(token)...))
}

// TestAllOfASelectionAtOnce replays and discards dead letters, and says what came of each.
func TestAllOfASelectionAtOnce(t *testing.T) {
	t.Parallel()
	b := channel(t)
	s, _ := operated(t, func(opt *admin.Options) { opt.Broker = b })
	for i := range 4 {
		refuse(t, b, "acme", fmt.Sprint("a-", i), "bad_field", `{"n":1}`, i)
	}
	refuse(t, b, "acme", "a-json", "not_json", "{", 0)
	refuse(t, b, "globex", "g-1", "bad_field", `{"n":1}`, 0)
	left := func() (ids string) {
		_, got, _ := send(t, s, "GET", "/v1/dead-letters", "", with("full")...)
		for _, d := range got["deadLetters"].([]any) {
			ids += d.(map[string]any)["id"].(string) + " "
		}
		return ids
	}
	for _, test := range []struct {
		deed, filter, token, asks, answers, left string
	}{
		{"replay", "tenant=globex", "acme", "404 ", "404 ", "a-0 a-1 a-2 a-3 a-json g-1 "},
		{"replay", "tenant=acme;reason=not_json", "full", "400 ", "400 ", "a-0 a-1 a-2 a-3 a-json g-1 "},
		{"discard", "since=yesterday", "full", "422 ", "422 ", "a-0 a-1 a-2 a-3 a-json g-1 "},
		{"discard", "correlation=req-9", "full", "0 dead letters of all tenants, correlation id &#34;req-9&#34;.", "0 dead letters discarded, 0 refused.", "a-0 a-1 a-2 a-3 a-json g-1 "},
		{"discard", "reason=not_json&since=2026-01-01", "full", "1 dead letter of all tenants, reason &#34;not_json&#34;, since &#34;2026-01-01T00:00:00.000Z&#34;.", "Done.</b> 1 dead letter discarded, 0 refused.</p>", "a-0 a-1 a-2 a-3 g-1 "},
		{"replay", "", "acme", "4 dead letters of acme.", "Done.</b> 3 dead letters replayed, 1 refused.\nacme &#34;a-3&#34; stays: it was replayed 3 times already</p>", "a-3 g-1 "},
		{"discard", "", "full", "2 dead letters of all tenants.", "Done.</b> 2 dead letters discarded, 0 refused.", ""},
	} {
		asks, answers := bulk(t, s, test.deed, test.filter, test.token)
		if !strings.Contains(asks, test.asks) || !strings.Contains(answers, test.answers) {
			t.Errorf("%s of %q: no %q in\n%s\nor no %q in\n%s", test.deed, test.filter, test.asks, asks, test.answers, answers)
		}
		if got := left(); got != test.left {
			t.Errorf("%s of %q leaves %q, want %q", test.deed, test.filter, got, test.left)
		}
	}
	_, audit := get(s, "/audit", with("full")...)
	for _, text := range []string{"replay dead letters", "3 dead letters replayed, 1 refused", "of all tenants, reason &#34;not_json&#34;"} {
		if !strings.Contains(audit, text) {
			t.Errorf("no %q in the audit log", text)
		}
	}
}

// TestBulkOfASlowBrokerSaysThatItIsNotAll of what was selected.
func TestBulkOfASlowBrokerSaysThatItIsNotAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for letters, want := range map[int][2]string{
			100: {"200 At least 9 dead letters of acme.", "200 Done in part.</b> 9 dead letters discarded, 0 refused.\nNot all: ask again.</p>"},
			0:   {"503 ", "503 Failed:</b> the broker did not answer in time"},
		} {
			b := slowBroker{gochannel.New(gochannel.Options{}, quiet), letters}
			s := admin.New(quiet, admin.Options{Monitor: admin.NewMonitor(nil, quiet), Timers: unreadableTimers{}, Broker: b})
			asks, answers := bulk(t, s, "discard", "tenant=acme", "")
			for i, body := range []string{asks, answers} {
				code, says, _ := strings.Cut(want[i], " ")
				if !strings.HasPrefix(body, code) || !strings.Contains(body, says) {
					t.Errorf("%d dead letters: no %q in\n%s", letters, want[i], body)
				}
			}
		}
	})
}

// failingOperator changes a number of batches, and then fails.
type failingOperator struct {
	admin.Service
	batches int
}

func (f *failingOperator) Retry(_ context.Context, seqs ...int64) (int, error) {
	if f.batches--; f.batches < 0 {
		return 0, errors.New("disk full")
	}
	return len(seqs), nil
}

// manyEvents are parked.
type manyEvents struct{ timer.Reader }

func (manyEvents) Parked(_ context.Context, _ timer.TenantID, after int64, limit int) (page []timer.ParkedEvent, err error) {
	for seq := after + 1; seq <= 1234 && len(page) < limit; seq++ {
		page = append(page, timer.ParkedEvent{Seq: seq, TenantID: "acme"})
	}
	return page, nil
}

// unreadEvents are more than the database can read.
type unreadEvents struct{ manyEvents }

func (e unreadEvents) Parked(ctx context.Context, tenant timer.TenantID, after int64, limit int) ([]timer.ParkedEvent, error) {
	if after > 0 {
		return nil, errors.New("disk full")
	}
	return e.manyEvents.Parked(ctx, tenant, after, limit)
}

// TestAllParkedEventsAtOnce are retried or discarded, in batches.
func TestAllParkedEventsAtOnce(t *testing.T) {
	t.Parallel()
	s, store := operated(t, nil)
	for _, test := range []struct{ deed, filter, token, asks, answers string }{
		{"retry-parked", "tenant=globex", "acme", "404 ", "404 "},
		{"retry-parked", "reason=small", "full", "0 parked events of all tenants, reason", "Done.</b> 0 of 0 events in the outbox again."},
		{"retry-parked", "", "acme", "1 parked event of acme.", "Done.</b> 1 of 1 events in the outbox again."},
		{"discard-parked", "reason=LARGE", "full", "1 parked event of all tenants", "Done.</b> 1 of 1 events deleted for good."},
	} {
		asks, answers := bulk(t, s, test.deed, test.filter, test.token)
		if !strings.Contains(asks, test.asks) || !strings.Contains(answers, test.answers) {
			t.Errorf("%s of %q: no %q in\n%s\nor no %q in\n%s", test.deed, test.filter, test.asks, asks, test.answers, answers)
		}
	}
	if stats, err := store.Stats(t.Context(), ""); err != nil || stats.Parked != 0 || stats.Outbox != 1 {
		t.Errorf("%d parked, %d in the outbox (%v)", stats.Parked, stats.Outbox, err)
	}
	s, _ = operated(t, func(opt *admin.Options) {
		opt.Timers, opt.Service = manyEvents{opt.Timers}, &failingOperator{opt.Service, 3}
	})
	const part = "Done in part.</b> 600 of 1,234 events in the outbox again.\nNot all: ask again.</p>"
	if _, answers := bulk(t, s, "retry-parked", "tenant=acme", "full"); !strings.HasPrefix(answers, "200") || !strings.Contains(answers, part) {
		t.Errorf("no %q in\n%s", part, answers)
	}
	s, _ = operated(t, func(opt *admin.Options) {
		opt.Timers, opt.Service = unreadEvents{manyEvents{opt.Timers}}, &failingOperator{opt.Service, 100}
	})
	if _, answers := bulk(t, s, "retry-parked", "tenant=acme", "full"); !strings.HasPrefix(answers, "503") {
		t.Errorf("of more than could be read:\n%s", answers)
	}
}
