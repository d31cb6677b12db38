package admin_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
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

// tailMessages connects to /v1/messages of a server, and returns the lines, once it
// listens.
func tailMessages(t *testing.T, address, target, token string) *bufio.Scanner {
	t.Helper()
	return stream(t, address+"/v1/messages/"+target, token, "application/jsonl")
}

// TestMessagesAreThoseOfWhoMaySeeThem also where all tenants share a topic.
func TestMessagesAreThoseOfWhoMaySeeThem(t *testing.T) {
	t.Parallel()
	routing := gochannel.DefaultRouting()
	routing.Receipts = gochannel.DefaultReceipts
	b := gochannel.New(gochannel.Options{Routing: routing}, quiet)
	during(t, b.Run)
	must(t, broker.AwaitReady(t.Context(), b))
	s := admin.New(quiet, admin.Options{Addr: "127.0.0.1:0", Token: "full", Monitor: watched(t), Timers: seeded(t), Broker: b})
	useTokens(t, s, tenantTokens)
	must(t, s.Listen(t.Context()))
	stop := during(t, s.Run)
	tails := map[string]*bufio.Scanner{
		"globex order-2|_ |acme order-1": tailMessages(t, s.Address(), "commands", "full"),
		"acme order-1":                   tailMessages(t, s.Address(), "commands", "acme"),
		"globex order-2":                 tailMessages(t, s.Address(), "commands?tenant=globex", "full"),
		"_ ":                             tailMessages(t, s.Address(), "commands?tenant=_", "full"),
	}
	dead := tailMessages(t, s.Address(), "deadletters?tenant=acme", "acme")
	hostile := message.NewMessage("m-2", []byte("no JSON: \xff"))
	letter := message.NewMessage("m-4", []byte("text"))
	letter.Metadata.Set(envelope.HeaderTenantID, "acme")
	other := letter.Copy()
	other.Metadata.Set(envelope.HeaderTenantID, "globex")
	for _, m := range []broker.Message{
		{Topic: routing.Commands, Message: message.NewMessage("m-1", []byte(lineOf("globex", "order-2")))},
		{Topic: routing.Commands, Message: hostile},
		{Topic: routing.Commands, Message: message.NewMessage("m-3", []byte(lineOf("acme", "order-1")))},
		{Topic: routing.DeadLetters, Message: other},
		{Topic: routing.DeadLetters, Message: letter},
	} {
		must(t, b.Publisher().Publish(t.Context(), m)[0])
	}
	for want, lines := range tails {
		for _, want := range strings.Split(want, "|") {
			var m admin.Message
			if !lines.Scan() || json.Unmarshal(lines.Bytes(), &m) != nil || m.Topic != routing.Commands || m.At == "" {
				t.Errorf("%s: %s", want, lines.Text())
			}
			decoded, err := envelope.Decode(m.Body)
			if got := string(timer.TenantID(decoded.TenantID)) + " " + strings.TrimPrefix(decoded.ID, "c-"); want != got && (want != "_ " || err == nil || m.Base64 == nil) {
				t.Errorf("want %s: %s", want, lines.Text())
			}
		}
	}
	var m admin.Message
	if !dead.Scan() || json.Unmarshal(dead.Bytes(), &m) != nil || string(m.Body) != `"text"` || m.Headers[envelope.HeaderTenantID] != "acme" {
		t.Errorf("the dead letter: %s", dead.Text())
	}
	stop()
	for want, lines := range tails {
		if lines.Scan() || lines.Err() != nil {
			t.Errorf("%s, after the server has stopped: %q, %v", want, lines.Text(), lines.Err())
		}
	}
}

// A denyingBroker lets nobody listen.
type denyingBroker struct{ broker.Broker }

func (d denyingBroker) Tail() message.Subscriber { return d }

func (denyingBroker) Subscribe(context.Context, string) (<-chan *message.Message, error) {
	return nil, broker.ErrRefused
}

func (denyingBroker) Close() error { return nil }

func TestMessagesThatAreRefused(t *testing.T) {
	t.Parallel()
	s, _ := operated(t, nil)
	apart := broker.Routing{Commands: "timer.commands", Events: "events.{tenant}", DeadLetters: "dead.{tenant}"}
	noWildcard, _ := operated(t, func(opt *admin.Options) { opt.Broker = gochannel.New(gochannel.Options{Routing: apart}, quiet) })
	wild := apart
	wild.Wildcard = "*"
	denied, _ := operated(t, func(opt *admin.Options) {
		opt.Broker = denyingBroker{gochannel.New(gochannel.Options{Routing: wild}, quiet)}
	})
	none, _ := operated(t, func(opt *admin.Options) { opt.Broker = nil })
	for _, test := range []struct {
		s             *admin.Server
		target, token string
		code          int
		says          string
	}{
		{s, "commands", "", 401, "token"},
		{s, "commands?tenant=globex", "acme", 404, "nothing of this tenant"},
		{s, "letters", "full", 422, "path.kind: expected value to be one of"},
		{s, "commands?tenant=no/tenant", "full", 422, "query.tenant: expected string"},
		{s, "receipts", "full", 422, "TIMER_RECEIPTS"},
		{noWildcard, "events", "full", 422, broker.ErrNameTenant.Error()},
		{denied, "events", "acme", 503, "did not answer"},
		{denied, "events", "full", 422, broker.ErrNameTenant.Error()},
		{none, "events", "full", 503, "needs a broker"},
	} {
		if code, body := get(test.s, "/v1/messages/"+test.target, with(test.token)...); code != test.code || !strings.Contains(body, test.says) {
			t.Errorf("%s: %d %s, want %d %q", test.target, code, body, test.code, test.says)
		}
	}
	if code, body := do(s, http.MethodHead, "/v1/messages/commands", with("full")...); code != 200 || body != "" { // and it ends
		t.Errorf("HEAD: %d %s", code, body)
	}
}

// TestMessagesEndWithTheirToken at the next heartbeat, which is an empty line.
func TestMessagesEndWithTheirToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := gochannel.New(gochannel.Options{}, quiet)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go b.Run(ctx)
		synctest.Wait()
		s := admin.New(quiet, admin.Options{Token: "full", Monitor: admin.NewMonitor(nil, quiet), Timers: unreadableTimers{}, Broker: b})
		useTokens(t, s, map[timer.TenantID][]string{"acme": {"removed", "kept"}})
		removed, kept := follow(ctx, s, "/v1/messages/events", with("removed")...), follow(ctx, s, "/v1/messages/events", with("kept")...)
		time.Sleep(16 * time.Second)
		useTokens(t, s, map[timer.TenantID][]string{"acme": {"kept"}})
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if text := removed.text(); text != "\n" {
			t.Errorf("with the token that was removed: %q", text)
		}
		if text := kept.text(); text != "\n\n\n" {
			t.Errorf("with the other one: %q", text)
		}
	})
}
