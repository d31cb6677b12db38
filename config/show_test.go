package config_test

import (
	cmpstd "cmp"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/config"
)

// dump returns every setting with its value and where it came from, one a line.
func dump(c config.Config) string {
	var b strings.Builder
	for _, v := range c.Values() {
		fmt.Fprintf(&b, "%s %s %s\n", v.Key, cmpstd.Or(v.Value, "-"), v.From)
	}
	return b.String()
}

func TestDumpListsEverySettingAndWhereItCameFrom(t *testing.T) {
	t.Parallel()
	c, err := config.Load(map[string]string{"retention": "120h"}, []string{"TIMER_NATS_MAX_BYTES=1048576"}, file(t, "horizon: 90m"))
	if err != nil {
		t.Fatal(err)
	}
	want := `polling_interval     5s                  default
batch_size           1000                default
db_path              ./event_service.db  default
db_url               -                   default
backup_every         0s                  default
backup_dir           -                   default
backup_keep          24                  default
broker               nats                default
broker_url           -                   default
broker_username      -                   default
broker_password      -                   default
broker_tls_ca        -                   default
broker_tls_cert      -                   default
broker_tls_key       -                   default
provision            create              default
durability           strict              default
commands_topic       -                   default
events_topic         -                   default
dead_letters_topic   -                   default
receipts             false               default
receipts_topic       -                   default
unknown_types        dead_letter         default
event_format         envelope            default
event_source         /timer-service      default
retention            5d                  flag
horizon              1h30m               file
max_clock_ahead      1d                  default
quotas_file          -                   default
drain_timeout        10s                 default
catch_up_timeout     10s                 default
recover              auto                default
http_addr            127.0.0.1:8080      default
http_token           -                   default
http_tenant_tokens_file - default
http_read_only       false               default
http_pprof           false               default
http_prefix          -                   default
http_origin          -                   default
http_trusted_proxies -                   default
http_socket          -                   default
server               -                   default
log_level            info                default
log_format           text                default
log_fx               false               default
nats_listen          127.0.0.1           default
nats_port            4222                default
nats_stream          svc                 default
nats_max_bytes       1MiB                env
nats_max_age         3d                  default
nats_min_age         1d                  default
nats_publish         single              default
nats_domain          -                   default
nats_inbox           -                   default
nats_nkey            -                   default
nats_token           -                   default
nats_credentials     -                   default
kafka_sasl           -                   default
kafka_max_age        3d                  default
rabbitmq_exchange    svc.direct          default
rabbitmq_queue_type  classic             default
`
	spaces := regexp.MustCompile(" +") // as many as the longest key needs
	if diff := cmp.Diff(spaces.ReplaceAllString(want, " "), spaces.ReplaceAllString(dump(c), " ")); diff != "" {
		t.Errorf("dump (-want +got):\n%s", diff)
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
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range c.Values() {
		if v.Value != flags[v.Key] {
			t.Errorf("%s is %q after %q was given", v.Key, v.Value, flags[v.Key])
		}
	}
}
