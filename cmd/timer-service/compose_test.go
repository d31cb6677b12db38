package main

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

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
			Volumes     []string
			Ports       []string
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
		if !is || !slices.Equal(variant.DependsOn, []string{name}) || !slices.Equal(variant.Profiles, []string{name}) || !slices.Contains(server.Profiles, name) {
			t.Errorf("%s: service %+v, server %+v", name, variant, server)
		}
		environ := []string{"TIMER_DB_PATH=/data/timer-service/timers.db"}
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

	alone := file.Services["timer-embedded"]
	settings := []string{"TIMER_DB_PATH=/data/timer-service/timers.db"} // of the image
	for key, value := range alone.Environment {
		settings = append(settings, key+"="+value)
	}
	cfg, err := config.Load(nil, settings, "")
	if err != nil || !cfg.Embedded() || cfg.NATSToken.Empty() || !slices.Equal(alone.Profiles, []string{"embedded"}) || len(alone.DependsOn) > 0 {
		t.Errorf("embedded: %+v: %v", alone, err)
	}
	if host, port, _ := cfg.NATSAddress(); config.IsLoopback(host) || !slices.Contains(alone.Ports, fmt.Sprintf("127.0.0.1:%d:%d", port, port)) {
		t.Errorf("embedded: listens on %s:%d, and has the ports %q", host, port, alone.Ports)
	}
	if !slices.ContainsFunc(alone.Volumes, func(v string) bool {
		name, folder, _ := strings.Cut(v, ":")
		_, is := file.Volumes[name]
		return is && path.Dir(path.Dir(cfg.DBPath)) == folder
	}) {
		t.Errorf("embedded: keeps %s in none of the volumes %q", cfg.DBPath, alone.Volumes)
	}

	// The dashboard and the metrics of each are published, on this machine, with a token.
	for name, one := range file.Services {
		addr, token := one.Environment["TIMER_HTTP_ADDR"], one.Environment["TIMER_HTTP_TOKEN"]
		published := slices.ContainsFunc(one.Ports, func(p string) bool { return strings.HasPrefix(p, "127.0.0.1:8080") && strings.HasSuffix(p, ":8080") })
		if strings.HasPrefix(name, "timer-") && (addr != "0.0.0.0:8080" || token == "" || !published) {
			t.Errorf("%s: its HTTP is on %q, with the token %q and the ports %q", name, addr, token, one.Ports)
		}
	}

	// A misspelled variable of any service would be found by the service only.
	for name, one := range file.Services {
		for key := range one.Environment {
			is := slices.ContainsFunc(config.Settings(), func(s config.Setting) bool { return s.Env == key })
			if strings.HasPrefix(name, "timer-") && !is {
				t.Errorf("%s: %s is no setting", name, key)
			}
		}
	}

	scale, database := file.Services["timer-scale"], file.Services["postgres"]
	var environ []string
	for key, value := range scale.Environment {
		environ = append(environ, key+"="+value)
	}
	cfg, err = config.Load(nil, environ, "")
	if err != nil || cfg.DBURL.Empty() || cfg.BrokerURL.Empty() || !slices.Equal(scale.DependsOn, []string{"nats", "postgres"}) {
		t.Errorf("scale: %+v: %v", scale, err)
	}
	want := fmt.Sprintf("postgres://%s:%s@postgres:5432/%s?sslmode=disable",
		database.Environment["POSTGRES_USER"], database.Environment["POSTGRES_PASSWORD"], database.Environment["POSTGRES_DB"])
	if got := cfg.DBURL.Reveal(); got != want {
		t.Errorf("scale connects to %s, the database is %s", got, want)
	}
	for _, name := range scale.DependsOn {
		if !slices.Contains(file.Services[name].Profiles, "scale") {
			t.Errorf("%s is not started for scale", name)
		}
	}
	if _, is := file.Volumes["postgres"]; !is {
		t.Error("postgres keeps its data in no volume")
	}
}
