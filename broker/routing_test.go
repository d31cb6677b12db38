package broker_test

import (
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/timer"
)

var (
	shared    = broker.Routing{Commands: "timer.commands", Events: "svc.{tenant}.serviceCall", DeadLetters: "svc.{tenant}.dlq", Wildcard: "*"}
	perTenant = broker.Routing{Commands: "svc.{tenant}.timer", Events: "svc.{tenant}.serviceCall", DeadLetters: "svc.{tenant}.dlq", Wildcard: "*"}
)

func TestRoutingNamesTopics(t *testing.T) {
	t.Parallel()
	tests := []struct{ got, want string }{
		{shared.Subscription(), "timer.commands"},
		{shared.CommandsOf("acme"), "timer.commands"},
		{shared.EventsOf("acme"), "svc.acme.serviceCall"},
		{shared.DeadLettersOf("acme"), "svc.acme.dlq"},
		{shared.DeadLettersOf(timer.NoTenant), "svc._.dlq"},
		{perTenant.Subscription(), "svc.*.timer"},
		{perTenant.CommandsOf("acme"), "svc.acme.timer"},
		{perTenant.TopicOf(broker.Commands, "*"), "svc.*.timer"},
		{perTenant.TopicOf(broker.Events, "acme"), "svc.acme.serviceCall"},
		{perTenant.TopicOf(broker.DeadLetter, timer.NoTenant), "svc._.dlq"},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}

func TestRoutingFindsTheTenantOfATopic(t *testing.T) {
	t.Parallel()
	tests := []struct {
		routing broker.Routing
		topic   string
		tenant  timer.TenantID
		named   bool
	}{
		{shared, "timer.commands", "", false},
		{perTenant, "svc.acme.timer", "acme", true},
		{perTenant, "svc..timer", "", true},
		{perTenant, "svc.timer", "", false},
		{perTenant, "svc.acme.dlq", "", false},
		{perTenant, "", "", false},
	}
	for _, tt := range tests {
		tenant, named := tt.routing.TenantOf(tt.topic)
		if tenant != tt.tenant || named != tt.named {
			t.Errorf("TenantOf(%q) = %q, %v, want %q, %v", tt.topic, tenant, named, tt.tenant, tt.named)
		}
	}
}

func TestRoutingRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	change := func(f func(*broker.Routing)) broker.Routing { r := shared; f(&r); return r }
	tests := []struct {
		name    string
		routing broker.Routing
		says    string // part of the error; empty if it is fine
	}{
		{"the shared topic", shared, ""},
		{"a topic per tenant", perTenant, ""},
		{"no commands", change(func(r *broker.Routing) { r.Commands = "" }), "commands topic is empty"},
		{"the tenant twice", change(func(r *broker.Routing) { r.Events = "{tenant}.{tenant}" }), "twice"},
		{"a wildcard", change(func(r *broker.Routing) { r.Events = "svc.>" }), "wildcard"},
		{"another brace", change(func(r *broker.Routing) { r.Events = "svc.{call}" }), "brace"},
		{"a tenant in commands without wildcards", change(func(r *broker.Routing) { r.Commands, r.Wildcard = "svc.{tenant}.timer", "" }), "cannot subscribe"},
		{"dead letters that would be consumed", change(func(r *broker.Routing) { r.DeadLetters = "timer.commands" }), "dead-letter topic"},
		{"dead letters inside a tenant's commands", broker.Routing{Commands: "svc.{tenant}.timer", Events: "e.{tenant}", DeadLetters: "svc.dlq.timer", Wildcard: "*"}, "dead-letter topic"},
		{"receipts", change(func(r *broker.Routing) { r.Receipts = "timer.receipts" }), ""},
		{"receipts among events", change(func(r *broker.Routing) { r.Receipts = r.Events }), "the events topic"},
		{"receipts among dead letters", change(func(r *broker.Routing) { r.Receipts = r.DeadLetters }), "the dead-letter topic"},
		{"events that would be consumed", change(func(r *broker.Routing) { r.Events = "{tenant}.commands" }), "events topic"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := tt.routing.Validate()
			if tt.says == "" && err != nil || tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
				t.Errorf("Validate: %v, want %q", err, tt.says)
			}
		})
	}
}
