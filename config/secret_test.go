package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/event-service-agent/timer-service/config"
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
			if err != nil {
				t.Fatal(err)
			}
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
