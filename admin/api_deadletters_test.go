package admin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/gochannel"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// refuse puts a dead letter into a broker.
func refuse(t *testing.T, b *gochannel.Broker, tenant, id, reason, body string, replays int) {
	t.Helper()
	refuseAt(t, b, "2026-01-01T00:00:00.000Z", tenant, id, reason, body, replays)
}

// refuseAt is refuse at a time.
func refuseAt(t *testing.T, b *gochannel.Broker, at, tenant, id, reason, body string, replays int) {
	t.Helper()
	m := message.NewMessage(id, []byte(body))
	for name, value := range map[string]string{
		envelope.HeaderType: envelope.TypeDeadLetter, envelope.HeaderTenantID: tenant, envelope.HeaderMessageID: id,
		envelope.HeaderDeadLetterReason: reason, envelope.HeaderDeadLetterDetail: "it is wrong", envelope.HeaderDeadLetterReplays: fmt.Sprint(replays),
		envelope.HeaderDeadLetterLastAt: at, envelope.HeaderCorrelationID: "of-" + tenant,
	} {
		m.Metadata.Set(name, value)
	}
	topic := b.Routing().DeadLettersOf(timer.TenantID(tenant))
	must(t, b.Publisher().Publish(t.Context(), broker.Message{Topic: topic, Message: m})[0])
}

// TestReplayLeavesWhatIsRefusedLater: a message that the service refuses again while dead letters are replayed
// is for the next call, or no replay of such letters would end.
func TestReplayLeavesWhatIsRefusedLater(t *testing.T) {
	t.Parallel()
	b := channel(t)
	s := admin.New(quiet, admin.Options{Monitor: watched(t), Timers: seeded(t), Broker: b})
	refuse(t, b, "acme", "first", "bad_field", `{}`, 0)
	refuseAt(t, b, "2099-01-01T00:00:00.000Z", "acme", "again", "bad_field", `{}`, 1)
	for _, query := range []string{"dryRun=true", "until=2098-01-01T00:00:00Z", "limit=10"} {
		_, text := do(s, "POST", "/v1/dead-letters:replay?tenant=acme&"+query)
		if has := strings.Contains(text, `"first"`); has != (query != "limit=10") || strings.Contains(text, `"again"`) || !strings.Contains(text, `"until":"20`) {
			t.Errorf("%s: %s", query, text)
		}
	}
}

// TestDeadLettersAreListedReplayedAndDiscarded by tenant.
func TestDeadLettersAreListedReplayedAndDiscarded(t *testing.T) {
	t.Parallel()
	b := channel(t)
	s := admin.New(quiet, admin.Options{Monitor: watched(t), Timers: seeded(t), Broker: b})
	for i := range 5 {
		refuse(t, b, "acme", fmt.Sprintf("a/%d", i), "bad_field", `{"n":1}`, i)
	}
	refuse(t, b, "globex", "g-1", "not_json", "\xff", 0)
	refuse(t, b, "_", "n-1", "not_json", "", 0)
	list := func(target string) (ids []string, next string) {
		code, got, _ := ask(t, s, "GET", target)
		if code != 200 {
			t.Fatalf("%s: %d %v", target, code, got)
		}
		for _, d := range got["deadLetters"].([]any) {
			ids = append(ids, d.(map[string]any)["id"].(string))
		}
		next, _ = got["next"].(string)
		return ids, next
	}
	for target, want := range map[string]string{
		"/v1/dead-letters?tenant=acme":                                    "a/0 a/1 a/2 a/3 a/4",
		"/v1/dead-letters?tenant=globex":                                  "g-1",
		"/v1/dead-letters?tenant=_":                                       "n-1",
		"/v1/dead-letters?tenant=none":                                    "",
		"/v1/dead-letters?reason=not_json":                                "g-1 n-1",
		"/v1/dead-letters?since=2026-01-02T00:00:00Z":                     "",
		"/v1/dead-letters?tenant=acme&correlationId=req-7":                "",
		"/v1/dead-letters?since=2026-01-01T00:00:00Z&reason=unknown_type": "",
	} {
		if ids, next := list(target); strings.Join(ids, " ") != want || next != "" {
			t.Errorf("%s: %v, next %q", target, ids, next)
		}
	}
	var all []string
	for after := ""; ; {
		ids, next := list("/v1/dead-letters?tenant=acme&limit=2&after=" + url.QueryEscape(after))
		all = append(all, ids...)
		if after = next; after == "" {
			break
		}
	}
	if strings.Join(all, " ") != "a/0 a/1 a/2 a/3 a/4" {
		t.Errorf("in pages: %v", all)
	}
	if code, got, _ := ask(t, s, "GET", "/v1/dead-letters?tenant=acme&after=gone"); code != 404 {
		t.Errorf("%d %v", code, got)
	}
	one := func(query string) map[string]any {
		code, got, _ := ask(t, s, "GET", "/v1/dead-letters?body=true&"+query)
		if code != 200 || len(got["deadLetters"].([]any)) != 1 {
			t.Fatal(query, code, got)
		}
		return got["deadLetters"].([]any)[0].(map[string]any)
	}
	if got := one("tenant=acme&id=a/1"); got["body"] != `{"n":1}` || got["replays"] != 1.0 || got["lastAt"] != "2026-01-01T00:00:00.000Z" {
		t.Errorf("%v", got)
	}
	if got := one("id=g-1"); got["bodyBase64"] != "/w==" {
		t.Errorf("%v", got)
	}

	commands, err := b.Tail().Subscribe(t.Context(), b.Routing().CommandsOf("acme"))
	must(t, err)
	for _, test := range []struct {
		method, target string
		code           int
		has            string
	}{
		{"GET", "/v1/dead-letters?id=none", 404, "no such dead letter"},
		{"POST", "/v1/dead-letters:replay?tenant=globex&id=a/1", 404, "no such dead letter"},
		{"POST", "/v1/dead-letters:replay?tenant=acme&id=none", 404, "no such dead letter"},
		{"POST", "/v1/dead-letters:replay?tenant=acme&id=a/3", 200, "replayed 3 times"},
		{"POST", "/v1/dead-letters:replay?tenant=acme&id=a/1&all=true", 422, "exclude each other"},
		{"POST", "/v1/dead-letters:replay", 422, "all=true"},
		{"POST", "/v1/dead-letters:discard?limit=1", 422, "all=true"},
		{"POST", "/v1/dead-letters", 405, ""},
		{"POST", "/v1/dead-letters:other", 404, ""},
		{"POST", "/v1/dead-letters:discard?tenant=globex&id=a/2", 404, "no such dead letter"},
		{"POST", "/v1/dead-letters:replay?id=a/1&dryRun=true", 200, `{"dryRun":true,"id":"a/1","tenantId":"acme","reason":"bad_field","result":"replayed"}`},
		{"POST", "/v1/dead-letters:replay?tenant=acme&id=a/1", 200, `{"id":"a/1","tenantId":"acme","reason":"bad_field","result":"replayed"}`},
		{"POST", "/v1/dead-letters:replay?tenant=acme&id=a/1", 404, "no such dead letter"},
		{"POST", "/v1/dead-letters:discard?id=a/2", 200, `"result":"discarded"`},
	} {
		if code, text := do(s, test.method, test.target); code != test.code || !strings.Contains(text, test.has) {
			t.Errorf("%s %s: %d %s, want %d with %q", test.method, test.target, code, text, test.code, test.has)
		}
	}
	if m := <-commands; string(m.Payload) != `{"n":1}` || m.Metadata.Get(envelope.HeaderDeadLetterReplays) != "2" {
		t.Errorf("replayed: %s %v", m.Payload, m.Metadata)
	}
	if ids, _ := list("/v1/dead-letters?tenant=acme"); !slices.Equal(ids, []string{"a/0", "a/3", "a/4"}) {
		t.Errorf("left: %v", ids)
	}
}

// TestDeadLettersAreRemovedPageByPage, each with its result, until there are no more.
func TestDeadLettersAreRemovedPageByPage(t *testing.T) {
	t.Parallel()
	b := channel(t)
	s := admin.New(quiet, admin.Options{Monitor: watched(t), Timers: seeded(t), Broker: b})
	for i := range 7 {
		refuse(t, b, "acme", fmt.Sprintf("a-%d", i), "bad_field", `{"n":1}`, i%4)
	}
	refuse(t, b, "globex", "g-1", "not_json", "", 0)
	remove := func(target string) (results []string) {
		for after := ""; ; {
			code, got, _ := ask(t, s, "POST", target+"&after="+url.QueryEscape(after))
			page, _ := got["deadLetters"].([]any)
			if code != 200 || len(page) > 2 {
				t.Fatalf("%s: %d %v", target, code, got)
			}
			for _, d := range page {
				results = append(results, fmt.Sprint(d.(map[string]any)["id"], " ", d.(map[string]any)["result"]))
			}
			if after, _ = got["next"].(string); after == "" {
				return results
			}
		}
	}
	for _, test := range []struct{ target, want string }{
		{"/v1/dead-letters:replay?tenant=acme&limit=2", "a-0 replayed, a-1 replayed, a-2 replayed, a-3 refused, a-4 replayed, a-5 replayed, a-6 replayed"},
		{"/v1/dead-letters:discard?limit=2&reason=not_json", "g-1 discarded"},
		{"/v1/dead-letters:discard?tenant=globex&limit=2", ""},
		{"/v1/dead-letters:discard?limit=2&all=true", "a-3 discarded"},
	} {
		if got := strings.Join(remove(test.target), ", "); got != test.want {
			t.Errorf("%s: %s, want %s", test.target, got, test.want)
		}
	}
}

// unlistedBroker is a broker that can't list its topics.
type unlistedBroker struct{ broker.Broker }

// VisitDeadLetters visits one tenant only.
func (u unlistedBroker) VisitDeadLetters(ctx context.Context, tenant timer.TenantID, from string, visit broker.DeadLetterVisit) error {
	if tenant == "" {
		return broker.ErrNameTenant
	}
	return u.Broker.VisitDeadLetters(ctx, tenant, from, visit)
}

// TestDeadLettersOfBrokersThatCannot answers what to do.
func TestDeadLettersOfBrokersThatCannot(t *testing.T) {
	t.Parallel()
	s := admin.New(quiet, admin.Options{Monitor: watched(t), Timers: seeded(t), Broker: unlistedBroker{channel(t)}})
	if code, got, _ := ask(t, s, "GET", "/v1/dead-letters"); code != 422 || !strings.Contains(fmt.Sprint(got), "name a tenant") {
		t.Errorf("%d %v", code, got)
	}
	away := admin.New(quiet, admin.Options{Monitor: watched(t), Timers: seeded(t), Broker: gochannel.New(gochannel.Options{}, quiet)})
	for target, method := range map[string]string{
		"/v1/dead-letters?tenant=acme": "GET", "/v1/dead-letters:replay?id=a": "POST", "/v1/dead-letters:discard?id=a": "POST",
	} {
		if code, text := do(away, method, target); code != 503 {
			t.Errorf("%s: %d %s", target, code, text)
		}
	}
}

// slowBroker has a number of dead letters, of which it reads nine in ten seconds.
type slowBroker struct {
	broker.Broker
	letters int
}

func (s slowBroker) VisitDeadLetters(ctx context.Context, _ timer.TenantID, _ string, visit broker.DeadLetterVisit) error {
	for i := range s.letters {
		select {
		case <-time.After(1100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
		m := message.NewMessage(fmt.Sprint("letter-", i), nil)
		m.Metadata.Set(envelope.HeaderTenantID, "acme")
		m.Metadata.Set(envelope.HeaderMessageID, m.UUID)
		if _, err := visit([]*message.Message{m}); err != nil {
			return err
		}
	}
	if s.letters == 0 {
		<-ctx.Done()
	}
	return ctx.Err()
}

// TestDeadLettersOfSlowBrokers are shown as far as they can be read in time.
func TestDeadLettersOfSlowBrokers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, test := range map[string]struct {
			letters int
			query   string
			code    int
			says    string
		}{
			"all of them, in more time than a page of timers has": {5, "", 200, "letter-4"},
			"more than can be read":                               {100, "", 200, "letter-8"},
			"a page that begins before the end of the time":       {100, "after=letter-5", 200, "letter-8"},
			"a page that begins behind it":                        {100, "after=letter-50", 503, "too many dead letters to read up to this page"},
			"a page that begins at it":                            {100, "after=letter-8", 503, "too many dead letters to read up to this page"},
			"a broker that does not answer":                       {0, "after=letter-50", 503, "did not answer in time"},
			"one that is gone":                                    {5, "after=letter-50", 404, "gone"},
		} {
			b := slowBroker{gochannel.New(gochannel.Options{}, quiet), test.letters}
			s := admin.New(quiet, admin.Options{Monitor: admin.NewMonitor(nil, quiet), Timers: unreadableTimers{}, Broker: b})
			if code, text := get(s, "/v1/dead-letters?tenant=acme&"+test.query); code != test.code || !strings.Contains(text, test.says) {
				t.Errorf("%s: %d %s", name, code, text)
			}
			if code, text := get(s, "/dead-letters?tenant=acme&"+test.query); code != test.code || !strings.Contains(text, test.says) {
				t.Errorf("%s, the page: %d %s", name, code, text)
			}
		}
	})
}

// TestLargeDeadLettersComeInPagesThatFitIntoAnAnswer has bodies of 3.2 MB, which a thousand dead
// letters would have twenty times.
func TestLargeDeadLettersComeInPagesThatFitIntoAnAnswer(t *testing.T) {
	t.Parallel()
	b := channel(t)
	s := admin.New(quiet, admin.Options{Monitor: watched(t), Timers: seeded(t), Broker: b})
	for i := range 50 {
		refuse(t, b, "acme", fmt.Sprintf("a-%02d", i), "not_json", strings.Repeat("\x00", 64<<10), 0)
	}
	var all []string
	for after, pages := "", 0; ; pages++ {
		w := request(s, "GET", "/v1/dead-letters?tenant=acme&body=true&limit=1000&after="+url.QueryEscape(after), "")
		if size := w.Body.Len(); w.Code != 200 || size > 16<<20 {
			t.Fatalf("%d with %d bytes", w.Code, size)
		}
		var page admin.DeadLetters
		must(t, json.Unmarshal(w.Body.Bytes(), &page))
		for _, l := range page.DeadLetters {
			all = append(all, l.ID)
		}
		if after = page.Next; after == "" {
			if pages == 0 {
				t.Error("there is one page")
			}
			break
		}
	}
	if len(all) != 50 || !slices.IsSorted(all) {
		t.Errorf("%v", all)
	}
}
