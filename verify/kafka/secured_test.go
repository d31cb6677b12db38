package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/event-service-agent/timer-service/internal/testcert"
	"github.com/event-service-agent/timer-service/verify/crash"
	"github.com/event-service-agent/timer-service/verify/internal/harness"
	"github.com/event-service-agent/timer-service/verify/internal/kafkanode"
)

// password is that of all users.
const password = kafkanode.Password

// secured starts three brokers that speak TLS alone, know users by SCRAM, and permit only
// what ACLs allow. The folder certs has the certificate.
func secured(t *testing.T, certs string, users ...string) *kafkanode.Cluster {
	t.Helper()
	cert, _ := testcert.New(t)
	testcert.Write(t, certs, cert)
	certificate, err := os.ReadFile(filepath.Join(certs, "cert.pem"))
	harness.Must(t, err)
	key, err := os.ReadFile(filepath.Join(certs, "key.pem"))
	harness.Must(t, err)
	harness.Must(t, os.WriteFile(filepath.Join(certs, "store.pem"), slices.Concat(key, certificate), 0o600))
	opt := kafkanode.Guarded(certs, users...)
	opt.Nodes = 3
	c, err := kafkanode.Start(t.Context(), t.ArtifactDir(), opt)
	harness.Must(t, err)
	t.Cleanup(c.Kill)
	return c
}

// as returns a client of a user.
func as(t *testing.T, c *kafkanode.Cluster, user string, more ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append(c.As(user), more...)...)
	harness.Must(t, err)
	t.Cleanup(client.Close)
	return client
}

// fetch returns what a client gets first.
func fetch(t *testing.T, client *kgo.Client) []*kgo.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		fetches := client.PollFetches(ctx)
		if records := fetches.Records(); len(records) > 0 {
			return records
		}
		t.Logf("fetch: %v", fetches.Err())
		harness.Must(t, ctx.Err())
	}
}

// page returns docs/brokers/kafka.md.
func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/brokers/kafka.md")
	harness.Must(t, err)
	return string(text)
}

// permit gives a user the permissions that the page lists for some.
func permit(t *testing.T, admin *kadm.Client, user string, who ...string) {
	t.Helper()
	harness.Must(t, kafkanode.Permit(t.Context(), admin, "../../docs/brokers/kafka.md", user, "", who...))
}

// TestSecuredClusterOfThePage runs the command and grants the permissions that
// docs/brokers/kafka.md has, word for word, and has the service work with only these.
func TestSecuredClusterOfThePage(t *testing.T) {
	needsKafka(t)
	certs := t.TempDir()
	c := secured(t, certs, "service", "provision", "client", "stranger")
	config, err := testcert.Read(certs)
	harness.Must(t, err)
	config.Certificates = nil
	tls := kgo.DialTLSConfig(config)
	admin := kadm.NewClient(as(t, c, "admin", tls))
	permit(t, admin, "service", "service")
	permit(t, admin, "provision", "timer-service provision")
	permit(t, admin, "client", "a producer", "a consumer")

	// The command for the topic.
	_, line, found := strings.Cut(page(t), "    kafka-topics.sh ")
	line, _, ended := strings.Cut(strings.ReplaceAll(line, "\\\n", " "), "\n")
	if !found || !ended {
		t.Fatal("docs/brokers/kafka.md has no command for the topic")
	}
	properties := filepath.Join(certs, "client.properties")
	harness.Must(t, os.WriteFile(properties, []byte(strings.Join([]string{
		"security.protocol=SASL_SSL", "sasl.mechanism=SCRAM-SHA-512", "ssl.truststore.type=PEM", "ssl.truststore.location=" + filepath.Join(certs, "cert.pem"),
		"sasl.jaas.config=" + kafkanode.Login("provision"),
	}, "\n")), 0o600))
	out, err := kafkanode.Tool(t.Context(), certs, "org.apache.kafka.tools.TopicCommand",
		append([]string{"--bootstrap-server", c.URL(), "--command-config", properties}, strings.Fields(line)...)...)
	if err != nil || !strings.Contains(out, "Created topic timer.commands") {
		t.Fatalf("kafka-topics.sh %s: %v\n%s", line, err, out)
	}

	dir := t.TempDir()
	settings := func(user string) []string {
		return []string{
			"TIMER_BROKER=kafka", "TIMER_BROKER_URL=" + urls(c), "TIMER_KAFKA_SASL=scram-sha-512", "TIMER_BROKER_USERNAME=" + user, "TIMER_BROKER_PASSWORD=" + password,
			"TIMER_BROKER_TLS_CA=" + filepath.Join(certs, "cert.pem"), "TIMER_PROVISION=verify", "TIMER_HTTP_ADDR=127.0.0.1:0",
		}
	}
	provision := exec.CommandContext(t.Context(), harness.Binary(t), "provision")
	provision.Dir, provision.Env = dir, append(crash.Environ(), settings("provision")...)
	if out, err := provision.CombinedOutput(); err != nil {
		t.Fatalf("provision: %v\n%s", err, out)
	}
	p := harness.Serve(t, dir, settings("service")...)
	due := time.Now().Add(time.Second).UTC()
	command := fmt.Sprintf(`{"id":"1c9a5f0e-0000-7000-8000-000000000001","type":"ScheduleTimer","tenantId":"acme","timestampMs":%d,"payload":{"tenantId":"acme","serviceCallId":"call-1","dueAt":%q}}`,
		time.Now().UnixMilli(), due.Format("2006-01-02T15:04:05.000Z"))
	record := kgo.Record{Topic: commands, Key: []byte("acme.call-1"), Value: []byte(command)}
	if err := as(t, c, "stranger", tls).ProduceSync(t.Context(), &record).FirstErr(); !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Errorf("a user without permissions publishes: %v", err)
	}
	client := as(t, c, "client", tls)
	client.AddConsumeTopics(events)
	harness.Must(t, client.ProduceSync(t.Context(), &record).FirstErr())
	if got := fetch(t, client); len(got) != 1 || string(got[0].Key) != "acme.call-1" {
		t.Errorf("the events are %v, want that of the timer", got)
	}
	harness.Must(t, p.Stop(time.Minute))
}

// urls lists the nodes as the service takes them.
func urls(c *kafkanode.Cluster) string {
	return "kafka+ssl://" + strings.ReplaceAll(c.URL(), ",", ",kafka+ssl://")
}
