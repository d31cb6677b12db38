package broker

import (
	"fmt"
	"strings"

	"github.com/event-service-agent/timer-service/timer"
)

// tenantToken stands for the tenant in a template.
const tenantToken = "{tenant}"

const receiptsTopic = "receipts topic" // only this topic may be empty

// A Routing names topics. Each field is a template in which {tenant} stands
// for the tenant.
type Routing struct {
	Commands    string // topic that the service takes commands from
	Events      string // topic of events
	DeadLetters string // topic of invalid commands
	Receipts    string // topic of receipts; empty if there are none
	Wildcard    string // the broker's token for "any tenant" in a subscription; empty if it has none
}

// Validate returns an error that names the template and the fix if a template
// cannot work.
func (r Routing) Validate() error {
	topics := []struct{ name, template string }{
		{"commands topic", r.Commands}, {"events topic", r.Events}, {"dead-letter topic", r.DeadLetters}, {receiptsTopic, r.Receipts},
	}
	for _, t := range topics {
		switch {
		case t.template == "" && t.name != receiptsTopic:
			return fmt.Errorf("%s is empty", t.name)
		case strings.Count(t.template, tenantToken) > 1:
			return fmt.Errorf("%s %q names %s twice; name it at most once", t.name, t.template, tenantToken)
		case strings.ContainsAny(strings.ReplaceAll(t.template, tenantToken, ""), "{}*> \t\r\n"):
			return fmt.Errorf("%s %q may hold %s, but no other brace, wildcard or space", t.name, t.template, tenantToken)
		}
	}
	if strings.Contains(r.Commands, tenantToken) && r.Wildcard == "" {
		return fmt.Errorf("commands topic %q names %s, which this broker cannot subscribe to; use a fixed name", r.Commands, tenantToken)
	}
	for _, t := range topics[1:] {
		if overlap(r.Commands, t.template) {
			return fmt.Errorf("%s %q lies inside the commands topic %q, so the service would consume its own messages; rename one", t.name, t.template, r.Commands)
		}
	}
	for _, t := range topics[1:3] {
		if r.Receipts != "" && overlap(r.Receipts, t.template) {
			return fmt.Errorf("%s %q lies inside the %s %q, so its consumers would get receipts; rename one", receiptsTopic, r.Receipts, t.name, t.template)
		}
	}
	return nil
}

// Subscription returns the topic to subscribe to for the commands of all tenants.
func (r Routing) Subscription() string {
	return strings.ReplaceAll(r.Commands, tenantToken, r.Wildcard)
}

// TopicOf returns the topic for messages of a kind and a tenant. The broker's token for
// "any tenant" may stand for the tenant.
func (r Routing) TopicOf(k Kind, t timer.TenantID) string {
	return fill([...]string{Commands: r.Commands, Events: r.Events, DeadLetter: r.DeadLetters}[k], t)
}

// CommandsOf returns the topic for commands of a tenant.
func (r Routing) CommandsOf(t timer.TenantID) string { return fill(r.Commands, t) }

// EventsOf returns the topic for events of a tenant.
func (r Routing) EventsOf(t timer.TenantID) string { return fill(r.Events, t) }

// ReceiptsOf returns the topic for receipts of a tenant; empty if there are none.
func (r Routing) ReceiptsOf(t timer.TenantID) string { return fill(r.Receipts, t) }

// DeadLettersOf returns the topic for dead letters of a tenant. Dead letters that name no
// tenant belong to [timer.NoTenant].
func (r Routing) DeadLettersOf(t timer.TenantID) string { return fill(r.DeadLetters, t) }

// TenantOf returns the tenant that the topic of a command names. It returns
// false if the commands topic does not hold the tenant.
func (r Routing) TenantOf(topic string) (timer.TenantID, bool) {
	t, named, matches := tenantIn(r.Commands, topic)
	return t, named && matches
}

func fill(template string, t timer.TenantID) string {
	return strings.ReplaceAll(template, tenantToken, string(t))
}

// overlap reports whether one topic can match both templates. Topics are
// compared token by token, since a tenant never holds a dot.
func overlap(a, b string) bool {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	if len(as) != len(bs) {
		return false
	}
	for i := range as {
		if as[i] != bs[i] && !strings.Contains(as[i], tenantToken) && !strings.Contains(bs[i], tenantToken) {
			return false
		}
	}
	return true
}
