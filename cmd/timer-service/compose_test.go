package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/event-service-agent/timer-service/config"
)

// TestComposeFile reads compose.yml as its users do: each variant of the service has settings
// that it takes, keeps its data in a volume, and shows its HTTP on this machine, with a token.
func TestComposeFile(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../compose.yml")
	must(t, err)
	var file struct {
		Services map[string]struct {
			Profiles    []string
			DependsOn   []string `yaml:"depends_on"`
			Environment map[string]string
			Ports       []string
		}
		Volumes map[string]any
	}
	must(t, yaml.Unmarshal(text, &file))
	for name, servers := range map[string][]string{"embedded": nil, "nats": {"nats"}, "kafka": {"kafka"}, "rabbitmq": {"rabbitmq"}, "scale": {"nats", "postgres"}} {
		variant := file.Services["timer-"+name]
		environ := []string{"TIMER_DB_PATH=/data/timer-service/timers.db"} // of the image
		for key, value := range variant.Environment {
			environ = append(environ, key+"="+value)
		}
		cfg, err := config.Load(nil, environ, "") // which refuses a variable that is misspelled
		if err != nil || cfg.Embedded() != (servers == nil) || cfg.DBURL.Empty() == (name == "scale") || !slices.Equal(variant.DependsOn, servers) || !slices.Equal(variant.Profiles, []string{name}) {
			t.Errorf("%s: %+v: %v", name, variant, err)
		}
		published := slices.ContainsFunc(variant.Ports, func(p string) bool { return strings.HasPrefix(p, "127.0.0.1:8080") && strings.HasSuffix(p, ":8080") })
		if cfg.HTTPAddr != "0.0.0.0:8080" || cfg.HTTPToken.Empty() || !published {
			t.Errorf("%s: its HTTP is on %q, with the ports %q", name, cfg.HTTPAddr, variant.Ports)
		}
		for _, server := range servers {
			if _, is := file.Volumes[server]; !is || !slices.Contains(file.Services[server].Profiles, name) {
				t.Errorf("%s: %s has no volume, or is not started", name, server)
			}
		}
	}
}
