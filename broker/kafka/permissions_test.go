package kafka_test

import (
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/brokertest"
	"github.com/event-service-agent/timer-service/broker/kafka"
)

// allow returns permissions as docs/brokers/kafka.md lists them.
func allow(resource kmsg.ACLResourceType, name string, pattern kmsg.ACLResourcePatternType, operations ...kmsg.ACLOperation) (acls []kfake.ACL) {
	for _, operation := range operations {
		acls = append(acls, kfake.ACL{Resource: resource, Name: name, Pattern: pattern, Operation: operation, Allow: true})
	}
	return acls
}

// documented returns a user with the permissions that docs/brokers/kafka.md lists for some,
// without one of them.
func documented(t *testing.T, name string, without string, who ...string) kfake.Opt {
	t.Helper()
	page, err := os.ReadFile("../../docs/brokers/kafka.md")
	must(t, err)
	operations := map[string]kmsg.ACLOperation{
		"Read": kmsg.ACLOperationRead, "Write": kmsg.ACLOperationWrite, "Create": kmsg.ACLOperationCreate,
		"Describe": kmsg.ACLOperationDescribe, "DescribeConfigs": kmsg.ACLOperationDescribeConfigs,
	}
	var acls []kfake.ACL
	seen := make(map[string]bool)
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, " | ")
		if len(cells) != 4 || !slices.Contains(who, strings.Trim(cells[0], "| `")) {
			continue
		}
		seen[strings.Trim(cells[0], "| `")] = true
		kind, on, _ := strings.Cut(cells[2], " ")
		on = strings.Trim(on, "`")
		resource, pattern := kmsg.ACLResourceTypeTopic, kmsg.ACLResourcePatternTypeLiteral
		switch kind {
		case "cluster":
			resource, on = kmsg.ACLResourceTypeCluster, "kafka-cluster"
		case "group":
			resource = kmsg.ACLResourceTypeGroup
		case "prefix":
			pattern = kmsg.ACLResourcePatternTypePrefixed
		}
		for operation := range strings.SplitSeq(strings.Trim(cells[3], " |\n"), ", ") {
			if operations[operation] == 0 {
				t.Fatalf("%s is no operation", operation)
			}
			if on+" "+operation != without {
				acls = append(acls, allow(resource, on, pattern, operations[operation])...)
			}
		}
	}
	if len(seen) != len(who) {
		t.Fatalf("docs/brokers/kafka.md has no permissions for some of %q", who)
	}
	return kfake.User("PLAIN", name, password, acls...)
}

// TestPermissionsOfTheDocumentsSuffice runs a service, a client and an operator
// with the permissions that docs/brokers/kafka.md lists, and no others.
func TestPermissionsOfTheDocumentsSuffice(t *testing.T) {
	t.Parallel()
	c := fake(t, kfake.EnableSASL(), kfake.EnableACLs(),
		documented(t, "service", "", "service", "service, optional"),
		documented(t, "provision", "", "timer-service provision"),
		documented(t, "lean", "", "service"),
		documented(t, "mute", "timer.commands Write", "service", "service, optional"),
		documented(t, "producer", "", "a producer", "a consumer"),
		kfake.User("PLAIN", "operator", password, allow(kmsg.ACLResourceTypeTopic, "service.events.", kmsg.ACLResourcePatternTypePrefixed,
			kmsg.ACLOperationRead, kmsg.ACLOperationDescribe, kmsg.ACLOperationWrite)...),
		kfake.User("PLAIN", "stranger", password),
	)
	as := func(name string, client bool) kafka.Options {
		r := kafka.DefaultRouting()
		r.Receipts = kafka.DefaultReceipts
		return kafka.Options{URL: c.url(), SASL: kafka.Plain, Username: name, Password: password, Client: client, Routing: r}
	}
	if _, err := kafka.New(as("lean", false), quiet).Provision(t.Context(), true); !errors.Is(err, broker.ErrDenied) || !strings.Contains(err.Error(), "create topic timer.commands") {
		t.Errorf("a dry provision of who may make no topic: %v", err)
	}
	if changes, err := kafka.New(as("provision", false), quiet).Provision(t.Context(), true); err != nil || len(changes) != 3 {
		t.Errorf("a dry provision: %v, %v", changes, err)
	}
	if changes, err := kafka.New(as("provision", false), quiet).Provision(t.Context(), false); err != nil || len(changes) != 3 {
		t.Errorf("provision: %v, %v", changes, err)
	}
	service, stop := start(t, as("service", false))
	owns(t, service)
	s := service.Subscriber("timer-service")
	commands, err := s.Subscribe(t.Context(), "timer.commands")
	must(t, err)
	producer := ready(t, as("producer", true))
	events, err := producer.Tail().Subscribe(t.Context(), "service.events")
	must(t, err)
	publish(t, producer, "timer.commands", "command")
	expect(t, commands, "command")
	publish(t, service, "service.events", "event")
	expect(t, events, "event")
	publish(t, service, kafka.DefaultReceipts, "receipt")
	publish(t, service, deadLetters, "dead letter")
	if got := replay(t, service, broker.Events); len(merged(got, "service.events")) != 1 {
		t.Errorf("replay of events: %v", got)
	}
	if got := replay(t, service, broker.DeadLetter); len(got) != 1 {
		t.Errorf("replay of dead letters: %v", got)
	}
	if err := brokertest.Read(t.Context(), service, "timer-service", broker.Commands, nil, func([]broker.Stored) error { return nil }); err != nil {
		t.Errorf("replay of commands: %v", err)
	}
	if logs, err := service.Logs(t.Context(), "timer-service"); err != nil || len(logs) < 24 {
		t.Errorf("the logs are %v, %v", logs, err)
	}
	if _, err := service.Used(t.Context(), "timer-service"); err != nil {
		t.Errorf("whether it is used: %v", err)
	}
	letters(t, service, "acme", only("none"))
	for _, of := range []string{"timer.commands", "service.events", deadLetters, kafka.DefaultReceipts} {
		if _, err := service.Tail().Subscribe(t.Context(), of); err != nil {
			t.Errorf("the service listens: %v", err)
		}
	}
	lean := as("lean", false) // as doctor asks, without the optional permissions
	lean.Verify, lean.Routing.Receipts = true, ""
	if changes, err := kafka.New(lean, quiet).Provision(t.Context(), true); err != nil || len(changes) > 0 {
		t.Errorf("a dry provision of the service: %v, %v", changes, err)
	}
	if found, err := kafka.New(lean, quiet).Inspect(t.Context(), "timer-service"); err != nil || found.Owner.Database != mine.Database {
		t.Errorf("an inspection of the service: %+v, %v", found, err)
	}
	operator := ready(t, as("operator", true))
	for want := range 2 {
		if seen := letters(t, operator, "acme", only("dead letter")); len(seen) != 1-want {
			t.Errorf("visit %d: dead letters %q", want, seen)
		}
	}
	for _, attempt := range []struct{ user, topic string }{{"mute", "timer.commands"}, {"producer", "service.events"}, {"producer", deadLetters}, {"operator", "timer.commands"}} {
		b := ready(t, as(attempt.user, true))
		if err := publishes(b, attempt.topic, "forged"); !errors.Is(err, broker.ErrDenied) || !strings.Contains(err.Error(), attempt.topic) {
			t.Errorf("%s may publish to %s: %v", attempt.user, attempt.topic, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	stop()
	denied, _ := run(t, as("stranger", false))
	awaitNotReady(t, denied)
}

// TestTopicsByTenantKeepTenantsApart runs a service with topics by tenant. Its users have what
// docs/brokers/kafka.md says that they need, and try the topics of another tenant.
func TestTopicsByTenantKeepTenantsApart(t *testing.T) {
	t.Parallel()
	c := fake(t, kfake.EnableSASL(), kfake.EnableACLs(),
		documented(t, "service", "", "service, by tenant", "service, by tenant, optional"),
		documented(t, "acme", "", "a producer of acme", "a consumer of acme"),
	)
	as := func(name string) kafka.Options {
		return kafka.Options{URL: c.url(), SASL: kafka.Plain, Username: name, Password: password, Client: name != "service", Routing: byTenant}
	}
	for _, tenant := range []string{"acme", "globex"} {
		must(t, c.Cluster.CreateTopic("svc."+tenant+".timer", 1, nil))
	}
	service := ready(t, as("service"))
	owns(t, service)
	commands, err := service.Subscriber("timer-service").Subscribe(t.Context(), byTenant.Subscription())
	must(t, err)
	acme := ready(t, as("acme"))
	publish(t, acme, "svc.acme.timer", "command")
	expect(t, commands, "command")
	for _, kind := range []string{"events", "receipts", "dlq"} {
		for _, tenant := range []string{"acme", "globex"} {
			publish(t, service, "svc."+tenant+"."+kind, kind)
		}
	}
	for _, kind := range []string{"events", "receipts"} {
		messages, err := acme.Tail().Subscribe(t.Context(), "svc.acme."+kind)
		must(t, err)
		publish(t, service, "svc.acme."+kind, kind)
		expect(t, messages, kind)
	}
	for _, of := range []string{"svc.globex.timer", "svc.globex.events", "svc.globex.receipts", "svc.globex.dlq", "svc._.dlq", "svc.acme.dlq", "svc.acme.events"} {
		if err := publishes(acme, of, "forged"); !errors.Is(err, broker.ErrDenied) {
			t.Errorf("publish to %s: %v", of, err)
		}
		if of == "svc.acme.events" {
			continue
		}
		if _, err := acme.Tail().Subscribe(t.Context(), of); !errors.Is(err, broker.ErrDenied) {
			t.Errorf("read %s: %v", of, err)
		}
	}
	for kind, want := range map[broker.Kind]int{broker.Events: 3, broker.DeadLetter: 2} {
		if got := replay(t, service, kind); len(slices.Concat(slices.Collect(maps.Values(got))...)) != want {
			t.Errorf("a recovery reads %v of %s, want %d", got, kind, want)
		}
	}
	if visited := letters(t, service, "", only("none")); len(visited) != 2 {
		t.Errorf("dead letters of all tenants: %q, want 2", visited)
	}
}

// byTenant are the topics by tenant of docs/brokers/kafka.md.
var byTenant = broker.Routing{
	Commands: "svc.{tenant}.timer", Events: "svc.{tenant}.events", Receipts: "svc.{tenant}.receipts", DeadLetters: "svc.{tenant}.dlq", Wildcard: "*",
}

// TestTopicsThatMayNotBeReadAreAnError visits and tails dead letters as a user who may only
// describe their topic.
func TestTopicsThatMayNotBeReadAreAnError(t *testing.T) {
	t.Parallel()
	const topic, prefixed = kmsg.ACLResourceTypeTopic, kmsg.ACLResourcePatternTypePrefixed
	c := fake(t, kfake.EnableSASL(), kfake.EnableACLs(),
		kfake.User("PLAIN", "service", password, allow(topic, "", prefixed, kmsg.ACLOperationAll)...),
		kfake.User("PLAIN", "onlooker", password, allow(topic, "service.events.", prefixed, kmsg.ACLOperationDescribe)...),
	)
	as := func(name string) kafka.Options {
		return kafka.Options{URL: c.url(), SASL: kafka.Plain, Username: name, Password: password, Client: name != "service"}
	}
	publish(t, ready(t, as("service")), deadLetters, "dead letter")
	onlooker := ready(t, as("onlooker"))
	visited := onlooker.VisitDeadLetters(t.Context(), "acme", "", broker.EachDeadLetter(t.Context(), func(*message.Message) (bool, error) {
		t.Error("a dead letter was visited")
		return false, nil
	}))
	_, tailed := onlooker.Tail().Subscribe(t.Context(), deadLetters)
	for _, err := range []error{visited, tailed} {
		if !errors.Is(err, kerr.TopicAuthorizationFailed) || !errors.Is(err, broker.ErrDenied) || !strings.Contains(err.Error(), "Read on topic "+deadLetters) {
			t.Errorf("%v, want that it is not allowed", err)
		}
	}
}
