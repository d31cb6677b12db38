package config

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
)

const day = 24 * time.Hour

// A setting is one row of the table.
type setting struct {
	key      string // as in the file
	fallback string // the default, as a user would write it
	meaning  string // one sentence
	binding
}

// schemes are those of the URLs of each broker.
var schemes = map[Broker][]string{
	NATS:     {"nats", "tls", "ws", "wss"},
	Kafka:    {"kafka", "kafka+ssl"},
	RabbitMQ: {"amqp", "amqps"},
}

// settings is the table. Its order is that of the documentation.
var settings = []setting{
	{
		"polling_interval", "5000", "Longest sleep between two looks at the database. A timer that is due wakes the service sooner; this is the safety net.",
		duration(func(c *Config) *time.Duration { return &c.PollingInterval }, time.Millisecond, time.Hour),
	},
	{
		"batch_size", "1000", "How many timers fire in one transaction at most.",
		integer(func(c *Config) *int { return &c.BatchSize }, 1, 10_000),
	},
	{
		"db_path", "./event_service.db", "File of the SQLite database. It is created if absent; its folder is not.",
		path(func(c *Config) *string { return &c.DBPath }, required),
	},
	{
		"db_url", "", "URL of a PostgreSQL database, instead of `db_path`: any number of instances may share it. It is never printed whole.",
		database(func(c *Config) *Secret { return &c.DBURL }, "postgres", "postgresql"),
	},
	{
		"broker", "nats", "Message broker. `gochannel` lives in the memory of one process and is meant for tests.",
		choice(func(c *Config) *Broker { return &c.Broker }, []Broker{NATS, Kafka, RabbitMQ, GoChannel}),
	},
	{
		"broker_url", "", "URL of the broker, or several with commas between them. Empty with `nats`: a server embedded in this process.",
		urls(func(c *Config) *Secret { return &c.BrokerURL }, slices.Concat(schemes[NATS], schemes[Kafka], schemes[RabbitMQ])...),
	},
	{
		"broker_username", "", "User at the broker. Credentials that stand in `broker_url` win.",
		anyText(func(c *Config) *string { return &c.BrokerUsername }),
	},
	{
		"broker_password", "", "Password of that user. It is never printed.",
		secret(func(c *Config) *Secret { return &c.BrokerPassword }),
	},
	{
		"broker_tls_ca", "", "File (PEM) with the certificates that sign the broker's. Empty: those that the system trusts.",
		path(func(c *Config) *string { return &c.BrokerTLSCA }, optional),
	},
	{
		"broker_tls_cert", "", "File (PEM) with the certificate that the service shows to the broker.",
		path(func(c *Config) *string { return &c.BrokerTLSCert }, optional),
	},
	{
		"broker_tls_key", "", "File (PEM) with the key of that certificate.",
		path(func(c *Config) *string { return &c.BrokerTLSKey }, optional),
	},
	{
		"provision", "create", "What is done about streams, topics and queues that are not there. `create`: the service makes them. `verify`: it waits until somebody has made them, such as `timer-service provision` with the credentials of an administrator.",
		choice(func(c *Config) *Provision { return &c.Provision }, []Provision{Create, Verify}),
	},
	{
		"durability", "strict", "`strict`: what was acknowledged survives a loss of power. `relaxed`: faster, and a loss of power may take the last moments.",
		choice(func(c *Config) *Durability { return &c.Durability }, []Durability{Strict, Relaxed}),
	},
	{
		"commands_topic", "", "Where commands arrive; `{tenant}` may stand for the tenant. Empty: the broker's default.",
		topic(func(c *Config) *string { return &c.CommandsTopic }),
	},
	{
		"events_topic", "", "Where events go; `{tenant}` may stand for the tenant. Empty: the broker's default.",
		topic(func(c *Config) *string { return &c.EventsTopic }),
	},
	{
		"dead_letters_topic", "", "Where invalid commands go, and those over a quota; `{tenant}` may stand for the tenant. Empty: the broker's default.",
		topic(func(c *Config) *string { return &c.DeadLettersTopic }),
	},
	{
		"event_format", "envelope", "How events are written: as JSON envelopes, or as CloudEvents 1.0 in structured JSON. Commands may be either, whatever this says. Events that wait in the outbox keep the format they have.",
		choice(func(c *Config) *EventFormat { return &c.EventFormat }, []EventFormat{Envelope, CloudEvents}),
	},
	{
		"event_source", "/timer-service", "Source of events that are CloudEvents.",
		uriReference(func(c *Config) *string { return &c.EventSource }),
	},
	{
		"retention", "7d", "How long timers are kept after they fired or were canceled. It must exceed the longest time after which the broker may deliver a command again.",
		duration(func(c *Config) *time.Duration { return &c.Retention }, time.Hour, 3650*day),
	},
	{
		"horizon", "3650d", "How far ahead a due time may lie. A later one is refused.",
		duration(func(c *Config) *time.Duration { return &c.Horizon }, time.Minute, 73_000*day),
	},
	{
		"quotas_file", "", "YAML file with what each tenant may have, see docs/operations.md. It is loaded again when it changes. Empty: anything.",
		path(func(c *Config) *string { return &c.QuotasFile }, optional),
	},
	{
		"drain_timeout", "10s", "How long a stop waits for what is in flight.",
		duration(func(c *Config) *time.Duration { return &c.DrainTimeout }, 100*time.Millisecond, 10*time.Minute),
	},
	{
		"log_level", "info", "Least severe level that is logged.",
		choice(func(c *Config) *slog.Level { return &c.LogLevel },
			[]slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError}),
	},
	{
		"log_format", "text", "Form of log lines: `text` for people, `json` for machines.",
		choice(func(c *Config) *LogFormat { return &c.LogFormat }, []LogFormat{Text, JSON}),
	},
	{
		"nats_port", "4222", "Port of the embedded NATS server, on the loopback interface; 0 takes any free one, and so does one that is taken: `ready` tells the address.",
		integer(func(c *Config) *int { return &c.NATSPort }, 0, 65_535),
	},
	{
		"nats_stream", "svc", "JetStream stream that holds commands, events and dead letters. It is created if absent.",
		word(func(c *Config) *string { return &c.NATSStream }),
	},
	{
		"nats_max_bytes", "8GiB", "Size limit of that stream when the service creates it. A full stream refuses messages and loses none.",
		size(func(c *Config) *int64 { return &c.NATSMaxBytes }, 1<<20, 1<<50),
	},
	{
		"nats_max_age", "3d", "How long that stream keeps messages when the service creates it. It must be shorter than `retention`: a command that is delivered after its timer was forgotten would make it anew.",
		duration(func(c *Config) *time.Duration { return &c.NATSMaxAge }, day, 3650*day),
	},
	{
		"nats_min_age", "1d", "Shortest time for which a stream may keep messages. One that is there and forgets sooner is refused.",
		duration(func(c *Config) *time.Duration { return &c.NATSMinAge }, time.Hour, 3650*day),
	},
	{
		"nats_domain", "", "JetStream domain that the stream is in. Empty: that of the server of `broker_url`.",
		words(func(c *Config) *string { return &c.NATSDomain }),
	},
	{
		"nats_inbox", "", "What the subjects begin with on which NATS answers. Empty: `_INBOX_timer-service` for the service and `_INBOX_timer-client` for clients. Give each tenant one of its own, and permission for no other.",
		words(func(c *Config) *string { return &c.NATSInbox }),
	},
	{
		"nats_nkey", "", "File with the seed of an nkey for the NATS servers of `broker_url`. It is read at every connect.",
		path(func(c *Config) *string { return &c.NATSNKey }, optional),
	},
	{
		"nats_token", "", "Token for the NATS servers of `broker_url`. It is never printed.",
		secret(func(c *Config) *Secret { return &c.NATSToken }),
	},
	{
		"nats_credentials", "", "File with credentials (`.creds`) for the NATS servers of `broker_url`.",
		path(func(c *Config) *string { return &c.NATSCredentials }, optional),
	},
	{
		"kafka_sasl", "", "How to log in to Kafka with `broker_username` and `broker_password`. Empty: not at all. `plain` sends the password as it is: use it with `kafka+ssl://`.",
		sasl(func(c *Config) *string { return &c.KafkaSASL }),
	},
	{
		"kafka_max_age", "3d", "How long Kafka's topics for commands and events keep messages when the service creates them. It must be shorter than `retention`: a command that is delivered after its timer was forgotten would make it anew.",
		duration(func(c *Config) *time.Duration { return &c.KafkaMaxAge }, day, 3650*day),
	},
	{
		"rabbitmq_exchange", "svc.direct", "Direct exchange of RabbitMQ that everything is published to. It is made if absent.",
		exchange(func(c *Config) *string { return &c.RabbitMQExchange }),
	},
	{
		"rabbitmq_queue_type", "classic", "Type of the queues that the service makes in RabbitMQ. `quorum` keeps them on several nodes; what is given back after a crash then comes behind what came meanwhile.",
		choice(func(c *Config) *QueueType { return &c.RabbitMQQueueType }, []QueueType{Classic, Quorum}),
	},
}

// env returns the setting's name in the environment.
func (s setting) env() string { return envPrefix + strings.ToUpper(s.key) }

// flag returns the setting's name as a flag, without dashes before it.
func (s setting) flag() string { return strings.ReplaceAll(s.key, "_", "-") }

// lookUp returns the setting with the key.
func lookUp(key string) (setting, bool) {
	for _, s := range settings {
		if s.key == key {
			return s, true
		}
	}
	return setting{}, false
}

// allOf reports whether all of the URLs have one of the schemes. Kafka's may have
// none.
func allOf(urls Secret, schemes []string) bool {
	for part := range strings.SplitSeq(urls.Reveal(), ",") {
		scheme, _, found := strings.Cut(strings.TrimSpace(part), "://")
		if !found && slices.Contains(schemes, "kafka") {
			continue
		}
		if !found || !slices.Contains(schemes, scheme) {
			return false
		}
	}
	return true
}

// check returns what is wrong with settings that are well formed each, but do
// not go together.
func (c Config) check() []error {
	var errs []error
	conflict := func(key, fix string) {
		s, _ := lookUp(key)
		errs = append(errs, &Mistake{Key: key, Value: s.show(c), From: c.origins[key].where(), Fix: fix})
	}
	switch {
	case c.Broker == GoChannel && !c.BrokerURL.Empty():
		conflict("broker_url", "gochannel has no server; leave it empty, or set broker to nats")
	case c.BrokerURL.Empty() && c.Broker != GoChannel && c.Broker != NATS:
		conflict("broker_url", fmt.Sprintf("%s needs a server; set it, such as %s://host", c.Broker, schemes[c.Broker][0]))
	case !c.BrokerURL.Empty() && !allOf(c.BrokerURL, schemes[c.Broker]):
		conflict("broker_url", fmt.Sprintf("broker is %s: must be URLs with the scheme %s", c.Broker, oneOf(schemes[c.Broker])))
	}
	if c.Broker == NATS && c.NATSMaxAge >= c.Retention {
		conflict("nats_max_age", "must be shorter than retention, which is "+FormatDuration(c.Retention)+": set either")
	}
	if c.Broker == Kafka && c.KafkaMaxAge >= c.Retention {
		conflict("kafka_max_age", "must be shorter than retention, which is "+FormatDuration(c.Retention)+": set either")
	}
	if c.Broker == Kafka && (c.KafkaSASL == "") != (c.BrokerUsername == "") && !strings.Contains(c.BrokerURL.Reveal(), "@") {
		conflict("kafka_sasl", "a user needs a way to log in: set both kafka_sasl and broker_username, or neither")
	}
	if c.KafkaSASL != "" && c.Broker != Kafka {
		conflict("kafka_sasl", "it is for Kafka; set broker to kafka, or leave it empty")
	}
	if (c.BrokerTLSCert == "") != (c.BrokerTLSKey == "") {
		conflict("broker_tls_cert", "a certificate needs its key: set both broker_tls_cert and broker_tls_key, or neither")
	}
	if (c.BrokerUsername == "") != c.BrokerPassword.Empty() {
		conflict("broker_username", "a user needs a password: set both broker_username and broker_password, or neither")
	}
	for _, s := range []struct {
		key string
		set bool
	}{
		{"broker_username", c.BrokerUsername != ""},
		{"broker_tls_ca", c.BrokerTLSCA != ""},
		{"broker_tls_cert", c.BrokerTLSCert != ""},
	} {
		if s.set && c.BrokerURL.Empty() {
			conflict(s.key, "it is for the servers of broker_url; set that too, or leave this empty")
		}
	}
	c.checkNATS(conflict)
	return errs
}

// checkNATS looks at what only NATS has.
func (c Config) checkNATS(conflict func(key, fix string)) {
	if c.Broker == NATS && c.NATSMaxAge < c.NATSMinAge {
		conflict("nats_max_age", "must not be shorter than nats_min_age, which is "+FormatDuration(c.NATSMinAge)+": set either")
	}
	ways := 0
	for _, s := range []struct {
		key, what string
		set       bool
	}{
		{"nats_credentials", "the credentials are", c.NATSCredentials != ""},
		{"nats_nkey", "the nkey is", c.NATSNKey != ""},
		{"nats_token", "the token is", !c.NATSToken.Empty()},
		{"nats_domain", "the domain is", c.NATSDomain != ""},
	} {
		if s.set && (c.Broker != NATS || c.BrokerURL.Empty()) {
			conflict(s.key, s.what+" for NATS servers; set broker_url too, or leave it empty")
		}
		if s.set && s.key != "nats_domain" {
			if ways++; ways > 1 || c.BrokerUsername != "" {
				conflict(s.key, "there is one way to log in; set one of broker_username, nats_credentials, nats_nkey and nats_token")
			}
		}
	}
}
