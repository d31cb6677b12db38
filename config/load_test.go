package config_test

import (
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/event-service-agent/timer-service/config"
)

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// file writes a configuration file and returns its name.
func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "timer.yaml")
	must(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

// mistakes loads a configuration that is wrong, and returns its errors, one a
// line.
func mistakes(t *testing.T, flags map[string]string, environ []string, file string) string {
	t.Helper()
	_, err := config.Load(flags, environ, file)
	if err == nil {
		t.Fatal("Load succeeded, want mistakes")
	}
	return err.Error()
}

func TestFlagWinsOverEnvironmentOverFile(t *testing.T) {
	t.Parallel()
	name := file(t, `
# what an operator would write
polling_interval: 250
batch_size: 200
log_level: debug
retention: "30d"
nats_max_bytes: 512MiB
commands_topic: 'svc.{tenant}.timer'
`)
	environ := []string{"TIMER_BATCH_SIZE=300", "TIMER_LOG_LEVEL=warn", "TIMER_TEST_NATS=nats://elsewhere"}
	got, err := config.Load(map[string]string{"log-level": "error"}, environ, name)
	must(t, err)
	want := config.Default()
	want.PollingInterval = 250 * time.Millisecond
	want.BatchSize = 300
	want.LogLevel = slog.LevelError
	want.Retention = 30 * 24 * time.Hour
	want.NATSMaxBytes = 512 << 20
	want.CommandsTopic = "svc.{tenant}.timer"
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(config.Config{})); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}

	from := map[string]string{}
	for _, v := range got.Values() {
		from[v.Key] = v.From
	}
	for key, want := range map[string]string{
		"retention": "file", "batch_size": "env", "log_level": "flag", "horizon": "default",
	} {
		if from[key] != want {
			t.Errorf("%s comes from %q, want %q", key, from[key], want)
		}
	}
}

func TestEnvironmentNamesTheFileUnlessAFlagDoes(t *testing.T) {
	t.Parallel()
	one, two := file(t, "batch_size: 1"), file(t, "batch_size: 2")
	for _, tt := range []struct {
		file string
		want int
	}{{"", 1}, {two, 2}} {
		c, err := config.Load(nil, []string{"TIMER_CONFIG=" + one}, tt.file)
		must(t, err)
		if c.BatchSize != tt.want {
			t.Errorf("batch size %d, want %d", c.BatchSize, tt.want)
		}
	}
}

func TestEmptyValueStandsForTheDefault(t *testing.T) {
	t.Parallel()
	name := file(t, "batch_size: 7\nretention:\nhorizon: ~\nbroker_url: nats://example.test:4222\n")
	c, err := config.Load(map[string]string{"batch-size": ""}, []string{"TIMER_BROKER_URL="}, name)
	must(t, err)
	if diff := cmp.Diff(config.Default(), c, cmpopts.IgnoreUnexported(config.Config{})); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
}

func TestAllMistakesAreReportedAtOnce(t *testing.T) {
	t.Parallel()
	name := file(t, "batch_size: 0\nbatch_sise: 5\nhorizon: 10s\nhorizon: 20d\n")
	environ := []string{"TIMER_POLLING_INTERVALL=5", "TIMER_batch_size=3", "TIMER_LOG_FORMAT=xml", "TIMER_BROKER=zeromq"}
	flags := map[string]string{"batch-size": "many", "volume": "11"}
	got := mistakes(t, flags, environ, name)
	want := strings.Join([]string{
		`horizon (` + name + `:4): is given in line 3 already; remove one`,
		`batch_size="0" (` + name + `:1): must be a whole number from 1 to 10000`,
		`batch_sise (` + name + `:2): no such setting; did you mean batch_size?`,
		`horizon="10s" (` + name + `:3): must be a duration from 1m to 73000d, such as 5000 (milliseconds), 30s or 7d`,
		`broker="zeromq" (TIMER_BROKER): must be nats, kafka, rabbitmq or gochannel`,
		`log_format="xml" (TIMER_LOG_FORMAT): must be text or json`,
		`TIMER_POLLING_INTERVALL: no such setting; did you mean TIMER_POLLING_INTERVAL?`,
		`TIMER_batch_size: no such setting; did you mean TIMER_BATCH_SIZE?`,
		`batch_size="many" (--batch-size): must be a whole number from 1 to 10000`,
		`--volume: no such setting`,
	}, "\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("mistakes (-want +got):\n%s", diff)
	}
}

func TestValuesOutOfRangeAreRefused(t *testing.T) {
	t.Parallel()
	for _, env := range []string{
		"POLLING_INTERVAL=0", "POLLING_INTERVAL=-5", "POLLING_INTERVAL=3600001", "POLLING_INTERVAL=1.5",
		"POLLING_INTERVAL=fast", "POLLING_INTERVAL=9223372036854775807", "POLLING_INTERVAL=5 s",
		"BATCH_SIZE=0", "BATCH_SIZE=10001", "BATCH_SIZE=1e3",
		"DB_PATH=:memory:", "DB_PATH=file:x?mode=memory", "DB_PATH=postgres://u:hunter2@h/db", "DB_PATH=a\x00b",
		"DB_URL=mysql://h/db", "DB_URL=postgres://", "DB_URL=host=h",
		"BROKER=zeromq", "RABBITMQ_EXCHANGE=amq.direct", "RABBITMQ_EXCHANGE=a b", "RABBITMQ_QUEUE_TYPE=stream",
		"BROKER_URL=localhost:4222", "BROKER_URL=http://h", "BROKER_URL=nats://", "BROKER_URL=nats://a,", "BROKER_URL=nats://a,b:4222",
		"BROKER_URL=kafka://a:9092", "BROKER_URL=nats://a,amqp://u:hunter2@b", // with the default broker
		"BROKER_URL=nats://u:hunter2@a:nats", "SERVER=timers.example:8080",
		"BROKER_USERNAME=u", "BROKER_TLS_CA=a.pem", "BROKER_TLS_CERT=a.pem", // without what belongs to it
		"PROVISION=maybe", "NATS_MIN_AGE=59m", "NATS_DOMAIN=a b", "NATS_INBOX=a.>", "NATS_INBOX=a.", "NATS_INBOX=*", "KAFKA_SASL=gssapi", "KAFKA_MAX_AGE=23h",
		"DURABILITY=maybe",
		"COMMANDS_TOPIC=a b", "EVENTS_TOPIC=a\nb", "DEAD_LETTERS_TOPIC=\xff",
		"EVENTS_TOPIC={foo}.x", "EVENTS_TOPIC={tenant}.{tenant}", "EVENTS_TOPIC=svc.*.x", "EVENTS_TOPIC=svc.>", "EVENTS_TOPIC=a/b", "EVENTS_TOPIC=a{tenant",
		"EVENT_FORMAT=cloudevent", "EVENT_FORMAT=xml", "EVENT_SOURCE=a b", "EVENT_SOURCE=/%2", "EVENT_SOURCE=/\u00e9", "EVENT_SOURCE=a b:c",
		"EVENT_SOURCE=1:2", "EVENT_SOURCE=https://u:hunter2@h/", "EVENT_SOURCE=/" + strings.Repeat("a", 256),
		"RETENTION=59m", "RETENTION=3651d", "HORIZON=59s", "HORIZON=73001d", "HORIZON=99999999999d",
		"DRAIN_TIMEOUT=99", "DRAIN_TIMEOUT=11m", "CATCH_UP_TIMEOUT=99", "CATCH_UP_TIMEOUT=11m",
		"LOG_LEVEL=loud", "LOG_FORMAT=xml",
		"NATS_PORT=65536", "NATS_PORT=-1",
		"NATS_LISTEN=localhost:99999", "NATS_LISTEN=localhost:", "NATS_LISTEN=localhost:nats", "NATS_LISTEN=nats://localhost", "NATS_LISTEN=::1:", "NATS_LISTEN=a b", "NATS_STREAM=a.b", "NATS_STREAM=svc>",
		"NATS_MAX_BYTES=1023KiB", "NATS_MAX_BYTES=9999999PiB", "NATS_MAX_BYTES=lots",
		"NATS_CREDENTIALS=a.creds", // without broker_url
	} {
		t.Run(env, func(t *testing.T) {
			t.Parallel()
			key, _, _ := strings.Cut(env, "=")
			_, err := config.Load(nil, []string{"TIMER_" + env}, "")
			m, ok := errors.AsType[*config.Mistake](err)
			if !ok {
				t.Fatalf("error is %v, want a Mistake", err)
			}
			if m.Key != strings.ToLower(key) || m.From != "TIMER_"+key || m.Fix == "" {
				t.Errorf("mistake is %+v, want key, variable and fix", m)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("error shows a password: %v", err)
			}
		})
	}
}

func TestValuesAtTheEdgeAreAccepted(t *testing.T) {
	t.Parallel()
	for _, env := range []string{
		"POLLING_INTERVAL=1", "POLLING_INTERVAL=1h", "POLLING_INTERVAL= 5000\r", "BATCH_SIZE=1", "BATCH_SIZE=10000",
		"DB_PATH=/var/lib/timer?%#.db", "BROKER=NATS", "BROKER=gochannel", "DURABILITY=relaxed",
		"DB_URL=postgres://u:p:w@h:5432,[::1]:65535/db?port=1", "DB_URL=postgres:///db?host=/run", "DB_URL=postgres://h",
		"BROKER_URL=nats://a:4222, tls://b", "BROKER_URL=nats://u:99999@b:65535/x", "BROKER_URL=ws://u:p@[::1]:80",
		"COMMANDS_TOPIC=svc.{tenant}.timer", "RETENTION=73h", "RETENTION=3650d", "NATS_MAX_AGE=1d", "KAFKA_MAX_AGE=1d", "NATS_MAX_AGE=167h", "HORIZON=1m", "HORIZON=73000d",
		"EVENT_FORMAT=CloudEvents", "EVENT_SOURCE=a", "EVENT_SOURCE=urn:example:timers", "EVENT_SOURCE=https://[::1]:80/a%20b?c=(d)#e", "EVENT_SOURCE=/" + strings.Repeat("a", 255),
		"DRAIN_TIMEOUT=100", "DRAIN_TIMEOUT=10m", "CATCH_UP_TIMEOUT=100", "CATCH_UP_TIMEOUT=10m", "LOG_LEVEL=WARN", "NATS_PORT=0", "NATS_PORT=65535", "NATS_LISTEN=127.0.0.2:0", "NATS_LISTEN=::1",
		"RABBITMQ_EXCHANGE=a.b-c/d", "RABBITMQ_QUEUE_TYPE=QUORUM", "NATS_STREAM=svc_2-A", "NATS_MAX_BYTES=1MiB", "NATS_MAX_BYTES=1PiB",
	} {
		if _, err := config.Load(nil, []string{"TIMER_" + env}, ""); err != nil {
			t.Errorf("%s: %v", env, err)
		}
	}
}

func TestSettingsThatNeedEachOther(t *testing.T) {
	t.Parallel()
	const url = "TIMER_BROKER_URL=nats://a"
	for _, test := range []struct {
		environ []string
		wrong   string // the settings that are complained about
	}{
		{[]string{url, "TIMER_BROKER_USERNAME=u", "TIMER_BROKER_PASSWORD=hunter2"}, ""},
		{[]string{url, "TIMER_BROKER_USERNAME=u"}, "broker_username"},
		{[]string{url, "TIMER_BROKER_PASSWORD=hunter2"}, "broker_username"},
		{[]string{url, "TIMER_BROKER_TLS_CA=ca", "TIMER_BROKER_TLS_CERT=cert", "TIMER_BROKER_TLS_KEY=key"}, ""},
		{[]string{url, "TIMER_BROKER_TLS_CERT=cert"}, "broker_tls_cert"},
		{[]string{url, "TIMER_BROKER_TLS_KEY=key"}, "broker_tls_cert"},
		{[]string{"TIMER_HTTP_TLS_KEY=key"}, "http_tls_cert"},
		{[]string{"TIMER_HTTP_TLS_CERT=cert"}, "http_tls_cert"},
		{[]string{"TIMER_BROKER_USERNAME=u", "TIMER_BROKER_PASSWORD=hunter2", "TIMER_BROKER_TLS_CA=ca"}, "broker_username broker_tls_ca"},
		{[]string{url, "TIMER_NATS_NKEY=f", "TIMER_NATS_DOMAIN=hub"}, ""},
		{[]string{"TIMER_NATS_NKEY=f"}, "nats_nkey"},
		{[]string{"TIMER_BACKUP_EVERY=1h", "TIMER_BACKUP_DIR=/backup"}, ""},
		{[]string{"TIMER_BACKUP_EVERY=1h"}, "backup_every"},
		{[]string{"TIMER_BACKUP_DIR=/backup"}, "backup_dir"},
		{[]string{"TIMER_BACKUP_EVERY=1h", "TIMER_BACKUP_DIR=/backup", "TIMER_DB_URL=postgres://h"}, "backup_every"},
		{[]string{"TIMER_BACKUP_EVERY=999", "TIMER_BACKUP_DIR=/backup"}, "backup_every"},
		{[]string{"TIMER_RECEIPTS_TOPIC=receipts"}, "receipts_topic"},
		{[]string{"TIMER_RECEIPTS_TOPIC=receipts", "TIMER_RECEIPTS=false"}, "receipts_topic"},
		{[]string{"TIMER_RECEIPTS_TOPIC=receipts", "TIMER_RECEIPTS=true"}, ""},
		{[]string{"TIMER_NATS_TOKEN=hunter2"}, ""},
		{[]string{"TIMER_NATS_TOKEN=hunter2", "TIMER_BROKER=gochannel"}, "nats_token"},
		{[]string{"TIMER_NATS_LISTEN=0.0.0.0"}, "nats_listen"},
		{[]string{"TIMER_NATS_LISTEN=:4222"}, "nats_listen"},
		{[]string{"TIMER_NATS_LISTEN=timers.example"}, "nats_listen"},
		{[]string{"TIMER_NATS_LISTEN=0.0.0.0", "TIMER_NATS_TOKEN=hunter2"}, ""},
		{[]string{"TIMER_NATS_LISTEN=[::1]:4222"}, ""},
		{[]string{"TIMER_NATS_LISTEN=localhost:4222", "TIMER_NATS_PORT=4222"}, "nats_port"},
		{[]string{"TIMER_NATS_LISTEN=localhost", "TIMER_NATS_PORT=4222"}, ""},
		{[]string{"TIMER_NATS_LISTEN=localhost:4222", "TIMER_NATS_PORT="}, ""},
		{[]string{"TIMER_NATS_DOMAIN=hub"}, "nats_domain"},
		{[]string{url, "TIMER_NATS_NKEY=f", "TIMER_NATS_CREDENTIALS=f"}, "nats_nkey"},
		{[]string{url, "TIMER_NATS_TOKEN=hunter2", "TIMER_BROKER_USERNAME=u", "TIMER_BROKER_PASSWORD=hunter2"}, "nats_token"},
		{[]string{url, "TIMER_NATS_MIN_AGE=4d"}, "nats_max_age"},
		// A command that is delivered after its timer was forgotten would make the timer anew.
		{[]string{"TIMER_RETENTION=48h"}, "nats_max_age"},
		{[]string{"TIMER_RETENTION=48h", "TIMER_NATS_MAX_AGE=24h"}, ""},
		{[]string{"TIMER_RETENTION=1h", "TIMER_BROKER=gochannel"}, ""},
		{[]string{url, "TIMER_BROKER=gochannel"}, "broker_url"},
	} {
		_, err := config.Load(nil, test.environ, "")
		var wrong []string
		if all, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range all.Unwrap() {
				if m, ok := errors.AsType[*config.Mistake](e); ok {
					wrong = append(wrong, m.Key)
				}
			}
		}
		if got := strings.Join(wrong, " "); got != test.wrong {
			t.Errorf("%v: complaints about %q, want %q (%v)", test.environ, got, test.wrong, err)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("error shows a password: %v", err)
		}
	}
}

// TestHTTPIsSwitchedOffByNothing: an address that is set and empty is no default.
func TestHTTPIsSwitchedOffByNothing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		environ []string
		addr    string
		chosen  bool
		mistake string
	}{
		"not set":             {nil, "127.0.0.1:8080", false, ""},
		"empty":               {[]string{"TIMER_HTTP_ADDR="}, "", true, ""},
		"a port of its own":   {[]string{"TIMER_HTTP_ADDR=localhost:0"}, "localhost:0", true, ""},
		"the default, chosen": {[]string{"TIMER_HTTP_ADDR=127.0.0.1:8080"}, "127.0.0.1:8080", true, ""},
		"all, with a token":   {[]string{"TIMER_HTTP_ADDR=:80", "TIMER_HTTP_TOKEN=0123456789abcdef"}, ":80", true, ""},
		"a short token":       {[]string{"TIMER_HTTP_ADDR=:80", "TIMER_HTTP_TOKEN=0123456789abcde"}, "", false, "16 or more"},
		"a short one here":    {[]string{"TIMER_HTTP_TOKEN=x"}, "127.0.0.1:8080", false, ""},
		"all, without":        {[]string{"TIMER_HTTP_ADDR=:80"}, "", false, "set http_token"},
		"another machine":     {[]string{"TIMER_HTTP_ADDR=timers.example:80"}, "", false, "set http_token"},
		"no port":             {[]string{"TIMER_HTTP_ADDR=localhost"}, "", false, "must be host:port"},
		"a port too high":     {[]string{"TIMER_HTTP_ADDR=localhost:99999"}, "", false, "must be host:port"},
		"a prefix that ends":  {[]string{"TIMER_HTTP_PREFIX=/timers/"}, "", false, "must be a path such as /timers"},
	} {
		c, err := config.Load(nil, test.environ, "")
		if test.mistake != "" {
			if err == nil || !strings.Contains(err.Error(), test.mistake) {
				t.Errorf("%s: %v, want %q", name, err, test.mistake)
			}
			continue
		}
		if addr, chosen := c.HTTPAddress(); err != nil || addr != test.addr || chosen != test.chosen {
			t.Errorf("%s: %q, %v, %v", name, addr, chosen, err)
		}
	}
}

func TestProxies(t *testing.T) {
	t.Parallel()
	cfg, err := config.Load(nil, []string{"TIMER_HTTP_ORIGIN=https://timers.example:8443", "TIMER_HTTP_TRUSTED_PROXIES=127.0.0.1, 10.0.0.0/8,::1"}, "")
	if err != nil || len(cfg.HTTPTrustedProxies) != 3 || !cfg.HTTPTrustedProxies[1].Contains(netip.MustParseAddr("10.1.2.3")) {
		t.Errorf("%v, %v", cfg.HTTPTrustedProxies, err)
	}
	for _, wrong := range []string{"HTTP_ORIGIN=timers.example", "HTTP_ORIGIN=https://timers.example/path", "HTTP_ORIGIN=https://u:p@timers.example", "HTTP_TRUSTED_PROXIES=proxy.example", "HTTP_TRUSTED_PROXIES=10.0.0.0/99"} {
		if _, err := config.Load(nil, []string{"TIMER_" + wrong}, ""); err == nil {
			t.Errorf("%s is accepted", wrong)
		}
	}
}

// A value that is shown can be given again: a dump is a configuration.
func TestShownValuesLoadAgain(t *testing.T) {
	t.Parallel()
	flags := map[string]string{}
	for _, v := range config.Default().Values() {
		flags[v.Key] = v.Value
	}
	c, err := config.Load(flags, nil, "")
	must(t, err)
	for _, v := range c.Values() {
		if v.Value != flags[v.Key] {
			t.Errorf("%s is %q after %q was given", v.Key, v.Value, flags[v.Key])
		}
	}
}

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
