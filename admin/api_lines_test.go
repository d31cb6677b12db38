package admin_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/broker/gochannel"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// lineOf is an envelope of a ScheduleTimer.
func lineOf(tenant timer.TenantID, call timer.ServiceCallID) string {
	return string(envelope.Schedule(timer.ScheduleTimer{
		Key: timer.Key{TenantID: tenant, ServiceCallID: call}, Version: timer.Version{TimestampMS: 1795348800000, CommandID: "c-" + string(call)}, DueAt: fired,
	}))
}

// publishLines posts lines and returns the status and what became of each.
func publishLines(t *testing.T, s *admin.Server, body string, header ...string) (int, []string) {
	t.Helper()
	w := request(s, "POST", "/v1/commands", body, append(header, "Content-Type", "application/jsonl")...)
	if w.Code != 200 {
		return w.Code, []string{w.Body.String()}
	}
	if kind := w.Header().Get("Content-Type"); kind != "application/jsonl" {
		t.Errorf("the answer is %s", kind)
	}
	var got []string
	for text := range strings.Lines(w.Body.String()) {
		var r admin.LineResult
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatal(text, err)
		}
		got = append(got, strings.TrimSpace(fmt.Sprintf("%d %s %s %s %.20s", r.Line, r.ID, r.Result, r.Reason, r.Detail)))
	}
	return w.Code, got
}

func TestManyCommandsArePublishedAtOnce(t *testing.T) {
	t.Parallel()
	b := channel(t)
	s := admin.New(quiet, admin.Options{Token: "full", Monitor: watched(t), Timers: seeded(t), Broker: b})
	useTokens(t, s, tenantTokens)
	messages, err := b.Tail().Subscribe(t.Context(), b.Routing().CommandsOf("acme"))
	must(t, err)
	other := strings.Replace(lineOf("globex", "order-2"), `"tenantId":"globex"`, `"tenantId":"acme"`, 1) // of another tenant within
	body := strings.Join([]string{
		lineOf("acme", "order-1"), "", lineOf("globex", "order-2"), "{", `{"id":"x","type":"OrderPlaced","tenantId":"acme","timestampMs":1795348800000,"payload":{}}`, other, lineOf("acme", "order-1"), "",
	}, "\r\n")
	for _, test := range []struct {
		token string
		want  []string
	}{
		{"full", []string{
			"1 c-order-1 published", "3 c-order-2 published", "4  refused not_json", "5 x refused unknown_type \"OrderPlaced\" is not", "6  refused tenant_mismatch", "7 c-order-1 published",
		}},
		{"acme", []string{
			"1 c-order-1 published", "3 c-order-2 refused  there is nothing of", "4  refused not_json", "5 x refused unknown_type \"OrderPlaced\" is not", "6  refused tenant_mismatch", "7 c-order-1 published",
		}},
	} {
		code, got := publishLines(t, s, body, with(test.token)...)
		for i := range got {
			if i < len(test.want) && (strings.HasSuffix(test.want[i], "not_json") || strings.HasSuffix(test.want[i], "mismatch")) && strings.HasPrefix(got[i], test.want[i]) {
				got[i] = test.want[i] // the text is that of the decoder
			}
		}
		if diff := cmp.Diff(test.want, got); code != 200 || diff != "" {
			t.Errorf("%s: %d (-want +got):\n%s", test.token, code, diff)
		}
	}
	seen := make(map[string]bool)
	for range 5 { // of two requests
		m := <-messages
		m.Ack()
		if seen[m.UUID] || m.Metadata.Get(envelope.HeaderType) != envelope.TypeScheduleTimer || !strings.HasPrefix(m.Metadata.Get(envelope.HeaderMessageID), "c-order-") {
			t.Errorf("message %s has the headers %v", m.UUID, m.Metadata)
		}
		seen[m.UUID] = true
	}
}

// Requests with an effect are bounded, and one that may not publish does not.
func TestManyCommandsThatAreRefused(t *testing.T) {
	t.Parallel()
	line := lineOf("acme", "order-1") + "\n"
	limited := admin.New(quiet, admin.Options{Monitor: watched(t), Timers: seeded(t), Broker: channel(t)})
	for name, test := range map[string]struct {
		s    *admin.Server
		body string
		code int
		says string
	}{
		"as many as there may be": {limited, strings.Repeat(line, admin.MaxCommands), 200, "1 c-order-1 published"},
		"one more":                {limited, strings.Repeat(line, admin.MaxCommands+1), 422, "more than 1000 lines"},
		"as large as it may be":   {limited, strings.Repeat(" ", admin.MaxCommandsBytes-len(line)) + line, 200, "1 c-order-1 published"},
		"a byte more":             {limited, strings.Repeat(" ", admin.MaxCommandsBytes-len(line)+1) + line, 413, "too large"},
		"read only":               {admin.New(quiet, admin.Options{Monitor: watched(t), Timers: seeded(t), Broker: channel(t), ReadOnly: true}), line, 403, "reads only"},
		"no broker":               {admin.New(quiet, admin.Options{Monitor: watched(t), Timers: seeded(t)}), line, 503, "needs a broker"},
		"a broker that is away": {
			admin.New(quiet, admin.Options{Monitor: watched(t), Timers: seeded(t), Broker: gochannel.New(gochannel.Options{}, quiet)}),
			line, 200, "1 c-order-1 failed  the broker did not a",
		},
	} {
		if code, got := publishLines(t, test.s, test.body); code != test.code || !strings.Contains(got[0], test.says) {
			t.Errorf("%s: %d %.300q, want %d %q", name, code, got, test.code, test.says)
		}
	}
	if code, got := publishLines(t, limited, "\n\n"); code != 200 || got != nil {
		t.Errorf("nothing: %d %v", code, got)
	}
}
