package config_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/timer"
)

const password = "hunter2"

func TestSecretIsNeverPrinted(t *testing.T) {
	t.Parallel()
	secret := config.NewSecret(password)
	holder := struct {
		inside config.Secret
		Public config.Secret
		deep   []any
	}{secret, secret, []any{secret, &secret, map[string]config.Secret{"k": secret}}}

	var out bytes.Buffer
	for _, verb := range []string{"v", "+v", "#v", "s", "q", "x", "X", "d", "t", "p", "T", "10s"} {
		fmt.Fprintf(&out, "%"+verb+" %"+verb+" %"+verb+"\n", secret, &secret, holder)
	}
	fmt.Fprintln(&out, secret, holder, fmt.Errorf("with %w and %v", error(&config.Mistake{}), secret))
	for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(h).Info("here", "secret", secret, "pointer", &secret, "holder", holder)
	}
	for _, marshal := range []func(any) ([]byte, error){json.Marshal, yaml.Marshal} {
		for _, v := range []any{secret, &secret, holder, map[string]any{"a": secret}} {
			data, err := marshal(v)
			must(t, err)
			out.Write(data)
		}
	}
	for _, form := range []string{password, fmt.Sprintf("%x", password), fmt.Sprintf("%X", password)} {
		if strings.Contains(out.String(), form) {
			t.Errorf("output shows the secret as %s:\n%s", form, out.String())
		}
	}
	if !strings.Contains(out.String(), "***") {
		t.Errorf("output does not say that there is a secret:\n%s", out.String())
	}
	if got := secret.Reveal(); got != password {
		t.Errorf("Reveal returns %q", got)
	}
}

func TestURLShowsHostsAndNoCredentials(t *testing.T) {
	t.Parallel()
	tests := []struct{ url, want string }{
		{"nats://localhost:4222", "nats://localhost:4222"},
		{"nats://user:hunter2@host:4222", "nats://***@host:4222"},
		{"nats://hunter2@host", "nats://***@host"},
		{"nats://a:1,tls://u:hunter2@b:2", "nats://a:1,tls://***@b:2"},
		{"postgres://u:hunter2@h/db?sslmode=require", "postgres://***@h"},
		{"postgres://h/db?user=u&password=hunter2", "postgres://h"},
		{"nats://user:hun/ter2@host", "***"},
		{"nats://user:7/hunter2@host", "***"},
		{"nats://user:7?hunter2@host", "***"},
		{"nats://user:7#hunter2@host", "***"},
		{"nats://user:hunter2,x@host", "***"},
		{"nats://user:7,hunter2@host", "***"},
		{"nats:hunter2", "***"},
		{"hunter2", "***"},
		{"a:9092,b.example:9093", "a:9092,b.example:9093"},
		{"kafka+ssl://a:9092,b:9093", "kafka+ssl://a:9092,b:9093"},
		{"nats://user:7,b:9093,hunter2@host", "***"},
		{"://hunter2", "***"},
		{"nats://user:%zzhunter2@host", "***"},
	}
	for _, tt := range tests {
		if got := config.NewSecret(tt.url).URL(); got != tt.want {
			t.Errorf("%s is shown as %s, want %s", tt.url, got, tt.want)
		}
	}
}

func TestMistakesShowNoSecret(t *testing.T) {
	t.Parallel()
	name := file(t, "broker_url: amqp://u:hunter2@h\ndb_url: postgres://u:hunter2@h/db\nbroker_ulr: nats://hunter2@h\nevents_topic: nats://hunter2@h\n")
	got := mistakes(t,
		map[string]string{"broker-url": "hunter2", "brokerurl": "hunter2"},
		[]string{"TIMER_BROKER_URL=nats:hunter2", "TIMER_BROKERURL=hunter2", "TIMER_DB_URL=hunter2\n"}, name)
	if strings.Contains(got, password) {
		t.Errorf("mistakes show the password:\n%s", got)
	}
	if lines := strings.Count(got, "\n") + 1; lines != 8 {
		t.Errorf("%d mistakes, want 8:\n%s", lines, got)
	}
}

// TestSecretsAreNoFlags, since others see them in the list of processes. The mistake names the
// variable. A URL without a password may be a flag.
func TestSecretsAreNoFlags(t *testing.T) {
	t.Parallel()
	for flag, refused := range map[string]bool{
		"http-token=hunter2": true, "broker-password=hunter2": true, "nats-token=hunter2": true,
		"db-url=postgres://u:hunter2@h/db": true, "db-url=postgres://h/db?user=u&password=hunter2": true, "db-url=postgres://u:hun,ter2@h/db": true, "db-url=postgres://h/db?sslpassword=hunter2": true,
		"broker-url=nats://a:1,nats://u:hunter2@b:2": true, "broker-url=nats://hunter2@h": true, "broker-url=amqps://u:hunter2@h": true, "server=https://u:hunter2@h": true,
		"http-token=": false, "db-url=postgres://u@h:5432/db": false, "db-url=postgres://[::1]:5432/db": false, "broker-url=nats://a:1,tls://b:2": false, "broker-url=h:9092": false, "server=http://h:8080/timers": false,
	} {
		name, value, _ := strings.Cut(flag, "=")
		key := strings.ReplaceAll(name, "-", "_")
		broker := map[bool]string{true: "kafka", false: "nats"}[value == "h:9092"]
		if strings.HasPrefix(value, "amqps") {
			broker = "rabbitmq"
		}
		_, err := config.Load(map[string]string{name: value}, []string{"TIMER_BROKER=" + broker}, "")
		said := err != nil && strings.Contains(err.Error(), "set TIMER_"+strings.ToUpper(key)+", or "+key+" in the file")
		if said != refused || err != nil && (strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "ter2")) {
			t.Errorf("--%s: %v, want it refused: %v", flag, err, refused)
		}
	}
}

func TestTokensOfTenants(t *testing.T) {
	t.Parallel()
	const hashed = "5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8"
	got, err := config.LoadTokens(file(t, `acme: secret-of-acme-1234
globex: # two, to change them
  - secret-of-globex-1
  - 1234567890123456
alice@ops: {token: secret-of-alice-1, role: operate}
bob: {token: "sha256:`+hashed+`", tenant: acme}
grafana: {token: [secret-of-grafana, secret-of-grafana-2], role: metrics}
`))
	of := func(name string, tenant timer.TenantID, role config.Role, token string) config.Token {
		return config.Token{Name: name, Tenant: tenant, Role: role, Hash: sha256.Sum256([]byte(token))}
	}
	want := []config.Token{
		of("acme", "acme", config.Operate, "secret-of-acme-1234"), of("globex", "globex", config.Operate, "secret-of-globex-1"), of("globex", "globex", config.Operate, "1234567890123456"),
		of("alice@ops", "", config.Operate, "secret-of-alice-1"), of("bob", "acme", config.Read, "password"),
		of("grafana", "", config.Metrics, "secret-of-grafana"), of("grafana", "", config.Metrics, "secret-of-grafana-2"),
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestMistakesInTenantTokens(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                               "is empty",
		"a/b: secret-of-acme-1234":       "is not a tenant id",
		"acme: secret":                   "of 16 or more visible ASCII characters",
		"acme: secret of acme 123456":    "of 16 or more visible ASCII characters",
		"acme: {a: secret-of-acme-1234}": "acme.a (",
		"acme: {}":                       "must be a token or a list of them",
		"alice: {role: operate}":         "must be a token or a list of them",
		"alice: {token: secret-of-alice-1, role: root}":                                      "role with read, operate or metrics",
		"alice: {token: secret-of-alice-1, tenant: a/b}":                                     "is not a tenant id",
		"alice: {token: secret-of-alice-1, tenant: }":                                        "alice.tenant",
		"alice: {token: secret-of-alice-1, role: metrics, tenant: acme}":                     "leave tenant out",
		"a b: {token: secret-of-alice-1}":                                                    "must be a name",
		"alice: {token: secret-of-alice-1}\nbob: {token: secret-of-alice-1}":                 "has a token of alice",
		"alice: {token: sha256:secret5e884898da28047151d0e56f8dc6292773603d0d6a}":            "sha256: and its hash",
		"acme: sha256:5e884898":                                                              "sha256: and its hash",
		"acme: [[secret-of-acme-1234]]":                                                      "must be a token or a list of them",
		"acme: &shared-by-both-tenants secret-of-acme-1234\nglobex: *shared-by-both-tenants": "must be a token or a list of them",
		"acme:": "must be a token or a list of them",
		"acme: secret-of-1234567\nb: secret-of-1234567":    "has a token of acme",
		"acme: secret-of-1234567\nacme: secret-of-1234568": "is given in line 1 already",
	} {
		_, err := config.LoadTokens(file(t, text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if _, err := config.LoadTokens("none.yaml"); err == nil {
		t.Error("no file, and no error")
	}
}
