package kafka_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/event-service-agent/timer-service/verify/crash"
	"github.com/event-service-agent/timer-service/verify/internal/harness"
	"github.com/event-service-agent/timer-service/verify/internal/kafkanode"
)

// TestTopicsByTenantOfThePage runs the service with the topics by tenant of
// docs/brokers/kafka.md, loses its database, and has the next start recover both tenants.
func TestTopicsByTenantOfThePage(t *testing.T) {
	needsKafka(t)
	tenants := []string{"acme", "globex"}
	c, err := kafkanode.Start(t.Context(), t.ArtifactDir(), kafkanode.Guarded("", append(tenants, "service")...))
	harness.Must(t, err)
	t.Cleanup(c.Kill)
	admin := kadm.NewClient(as(t, c, "admin"))
	permit(t, admin, "service", "service, by tenant", "service, by tenant, optional")
	events := make(map[string]*kgo.Client)
	stamped := "LogAppendTime"
	for _, tenant := range tenants {
		harness.Must(t, kafkanode.Permit(t.Context(), admin, "../../docs/brokers/kafka.md", tenant, tenant, "a producer of acme", "a consumer of acme"))
		_, err := admin.CreateTopic(t.Context(), 3, 1, map[string]*string{"message.timestamp.type": &stamped}, "svc."+tenant+".timer")
		harness.Must(t, err)
		events[tenant] = as(t, c, tenant, kgo.ConsumerGroup(tenant+".billing"), kgo.ConsumeTopics("svc."+tenant+".events"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	}
	schedule := func(tenant, call string, due time.Time) {
		t.Helper()
		body := fmt.Sprintf(`{"id":"%s-%s","type":"ScheduleTimer","tenantId":%q,"timestampMs":%d,"payload":{"tenantId":%q,"serviceCallId":%q,"dueAt":%q}}`,
			tenant, call, tenant, time.Now().UnixMilli(), tenant, call, due.UTC().Format(time.RFC3339Nano))
		harness.Must(t, as(t, c, tenant).ProduceSync(t.Context(), &kgo.Record{Topic: "svc." + tenant + ".timer", Key: []byte(tenant + "." + call), Value: []byte(body)}).FirstErr())
	}
	next := func(tenant, call string) {
		t.Helper()
		records := fetch(t, events[tenant])
		if len(records) != 1 {
			t.Fatalf("%s got %d events, want that of %s", tenant, len(records), call)
		}
		var event struct {
			TenantID    string `json:"tenantId"`
			AggregateID string `json:"aggregateId"`
		}
		if err := json.Unmarshal(records[0].Value, &event); err != nil || event.TenantID != tenant || event.AggregateID != call {
			t.Errorf("%s got %s, want that of %s", tenant, records[0].Value, call)
		}
	}
	dir := t.TempDir()
	start := func() *crash.Process {
		t.Helper()
		return harness.Serve(t, dir, "TIMER_BROKER=kafka", "TIMER_BROKER_URL="+c.URL(), "TIMER_KAFKA_SASL=scram-sha-512", "TIMER_BROKER_USERNAME=service", "TIMER_BROKER_PASSWORD="+password,
			"TIMER_COMMANDS_TOPIC=svc.{tenant}.timer", "TIMER_EVENTS_TOPIC=svc.{tenant}.events", "TIMER_DEAD_LETTERS_TOPIC=svc.{tenant}.dlq", "TIMER_HTTP_ADDR=127.0.0.1:0")
	}
	p := start()
	for _, tenant := range tenants {
		schedule(tenant, "fires-before", time.Now())
		next(tenant, "fires-before")
		schedule(tenant, "fires-after", time.Now().Add(time.Hour))
	}
	harness.Must(t, p.Stop(time.Minute))
	files, err := filepath.Glob(filepath.Join(dir, "timers.db*"))
	harness.Must(t, err)
	for _, file := range files {
		harness.Must(t, os.Remove(file))
	}
	p = start()
	for _, tenant := range tenants { // an event that is published again would come first
		schedule(tenant, "fires-after", time.Now())
		next(tenant, "fires-after")
	}
	harness.Must(t, p.Stop(time.Minute))
}
