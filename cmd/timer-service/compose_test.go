package main

import (
	"os"
	"slices"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/event-service-agent/timer-service/config"
)

// TestComposeFile reads compose.yml as its users do: each variant of the service
// has a broker beside it, and settings that the service takes.
func TestComposeFile(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Services map[string]struct {
			Profiles    []string
			DependsOn   []string `yaml:"depends_on"`
			Environment map[string]string
		}
		Volumes map[string]any
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, broker := range []config.Broker{config.NATS, config.Kafka, config.RabbitMQ} {
		name := string(broker)
		variant, is := file.Services["timer-"+name]
		server := file.Services[name]
		if !is || !slices.Equal(variant.DependsOn, []string{name}) || !slices.Equal(variant.Profiles, []string{name}) || !slices.Equal(server.Profiles, variant.Profiles) {
			t.Errorf("%s: service %+v, server %+v", name, variant, server)
		}
		environ := []string{"TIMER_DB_PATH=/data/timers.db"}
		for key, value := range variant.Environment {
			environ = append(environ, key+"="+value)
		}
		if cfg, err := config.Load(nil, environ, ""); err != nil || cfg.Broker != broker || cfg.BrokerURL.Empty() {
			t.Errorf("%s: broker %q: %v", name, cfg.Broker, err)
		}
		if _, is := file.Volumes[name]; !is {
			t.Errorf("%s keeps its data in no volume", name)
		}
	}
}
