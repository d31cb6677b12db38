package config_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/config"
)

// TestVariablesOfKubernetesAreNoSettings has what Kubernetes sets for Services named
// timer, timer-service and timer-nats.
func TestVariablesOfKubernetesAreNoSettings(t *testing.T) {
	t.Parallel()
	var environ []string
	for _, name := range []string{"TIMER", "TIMER_SERVICE", "TIMER_NATS"} {
		environ = append(environ,
			name+"_SERVICE_HOST=10.96.0.12", name+"_SERVICE_PORT=4222", name+"_SERVICE_PORT_NATS=4222", name+"_SERVICE_PORT_NATS_TLS=4223",
			name+"_PORT=tcp://10.96.0.12:4222", name+"_PORT_4222_TCP=tcp://10.96.0.12:4222", name+"_PORT_4222_TCP_PROTO=tcp",
			name+"_PORT_4222_TCP_PORT=4222", name+"_PORT_4222_TCP_ADDR=10.96.0.12", name+"_PORT_53_UDP=udp://[fd00::1]:53", name+"_PORT_53_UDP_ADDR=fd00::1",
		)
	}
	slices.Sort(environ)
	environ = slices.Compact(environ)
	cfg, err := config.Load(nil, append(environ, "TIMER_NATS_STREAM=mine"), "")
	must(t, err)
	if cfg.NATSPort != 4222 || cfg.NATSStream != "mine" {
		t.Errorf("port %d, stream %s", cfg.NATSPort, cfg.NATSStream)
	}
	names := make(map[string]bool)
	for _, e := range environ {
		name, _, _ := strings.Cut(e, "=")
		names[name] = true
	}
	if got := cfg.Ignored(); len(got) != len(names) {
		t.Errorf("%d are ignored, want %d: %q", len(got), len(names), got)
	}
}

func TestMisspeltSettingsAreNotTakenForKubernetes(t *testing.T) {
	t.Parallel()
	for _, e := range []string{
		"TIMER_PORT=4222", "TIMER_NATS_PROT=tcp://10.0.0.1:4222", "TIMER_NATS_PORTS=4222", "TIMER_SERVICE_HOST=timers.example", "TIMER_SERVICE_PORTS=4222",
		"TIMER_PORT_4222=4222", "TIMER_NATS_PORT=http://10.0.0.1:4222", "TIMER_BROKER_HOST=10.0.0.1", "TIMER_SERVICE_PORT=99999", "TIMER_SERVICE_NAME=x",
	} {
		if cfg, err := config.Load(nil, []string{e}, ""); err == nil {
			t.Errorf("%s is no mistake: %q", e, cfg.Ignored())
		}
	}
}
