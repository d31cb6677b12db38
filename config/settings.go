package config

import (
	"log/slog"
	"slices"
	"strings"
	"time"
)

const day = 24 * time.Hour

// A setting is one row of a table.
type setting struct {
	key      string // as in the file
	fallback string // the default, as a user would write it
	value
	meaning string // one sentence or two, in Markdown
}

// settings is the table of all settings, with c as where they are kept. Its order
// is that of the documentation.
func (c *Config) settings() []setting {
	return []setting{
		{"polling_interval", "5000", duration(&c.PollingInterval, time.Millisecond, time.Hour), "Longest sleep between two polls of the database. A timer that is due wakes the service sooner; this is the safety net."},
		{"batch_size", "1000", integer(&c.BatchSize, 1, 10_000), "How many timers fire in one transaction at most."},
		{"db_path", "./event_service.db", path(&c.DBPath), "File of the SQLite database. It is created if absent; its folder is not."},
		{"db_url", "", database(&c.DBURL, "postgres", "postgresql"), "URL of a PostgreSQL database, instead of `db_path`: any number of instances may share it. It is never printed whole."},
		{"broker", "nats", choice(&c.Broker, NATS, Kafka, RabbitMQ, GoChannel), "Message broker. `gochannel` lives in the memory of one process and is meant for tests."},
		{"broker_url", "", urls(&c.BrokerURL, slices.Concat(schemes[NATS], schemes[Kafka], schemes[RabbitMQ])...), "URL of the broker, or several with commas between them. Empty with `nats`: a server embedded in this process."},
		{"broker_username", "", anyText(&c.BrokerUsername), "User at the broker. Credentials in `broker_url` win."},
		{"broker_password", "", password(&c.BrokerPassword), "Password of that user. It is never printed."},
		{"broker_tls_ca", "", path(&c.BrokerTLSCA), "File (PEM) with the certificates that sign the broker's. Empty: those that the system trusts."},
		{"broker_tls_cert", "", path(&c.BrokerTLSCert), "File (PEM) with the certificate that the service shows to the broker."},
		{"broker_tls_key", "", path(&c.BrokerTLSKey), "File (PEM) with the key of that certificate."},
		{"provision", "create", choice(&c.Provision, Create, Verify), "What is done about streams, topics and queues that do not exist. `create`: the service creates them. `verify`: it waits until they exist, created for example by `timer-service provision` with the credentials of an administrator."},
		{"durability", "strict", choice(&c.Durability, Strict, Relaxed), "`strict`: what was acknowledged survives a loss of power. `relaxed`: faster, but a loss of power may lose the last moments."},
		{"commands_topic", "", topic(&c.CommandsTopic), "Where commands arrive; `{tenant}` may stand for the tenant. Empty: the broker's default."},
		{"events_topic", "", topic(&c.EventsTopic), "Where events go; `{tenant}` may stand for the tenant. Empty: the broker's default."},
		{"dead_letters_topic", "", topic(&c.DeadLettersTopic), "Where invalid commands go, and those over a quota; `{tenant}` may stand for the tenant. Empty: the broker's default."},
		{"unknown_types", "dead_letter", choice(&c.UnknownTypes, DeadLetter, Ignore), "What becomes of messages on the commands topic whose type is no command. `dead_letter`: they are refused, so that a misspelled command does not vanish. `ignore`: they are acknowledged, counted, and each type is logged once: for a topic that teams share."},
		{"event_format", "envelope", choice(&c.EventFormat, Envelope, CloudEvents), "How events are written: as JSON envelopes, or as CloudEvents 1.0 in structured JSON. Commands may be either, whatever this says. Events that wait in the outbox keep the format they have."},
		{"event_source", "/timer-service", uriReference(&c.EventSource), "Source of events that are CloudEvents."},
		{"retention", "7d", duration(&c.Retention, time.Hour, 3650*day), "How long timers are kept after they fired or were canceled. It must exceed the longest time after which the broker may deliver a command again."},
		{"horizon", "3650d", duration(&c.Horizon, time.Minute, 73_000*day), "How far ahead a due time may lie. A later one is refused."},
		{"max_clock_ahead", "1d", duration(&c.MaxClockAhead, time.Minute, 73_000*day), "How far ahead of the service's clock `timestampMs` of a command may be. One that is further ahead is refused: for so long it would supersede all that follow it."},
		{"quotas_file", "", path(&c.QuotasFile), "YAML file with the limits of each tenant, see docs/operations.md. It is loaded again when it changes. Empty: no limits."},
		{"drain_timeout", "10s", duration(&c.DrainTimeout, 100*time.Millisecond, 10*time.Minute), "How long a stop waits for what is in flight."},
		{"catch_up_timeout", "10s", duration(&c.CatchUpTimeout, 100*time.Millisecond, 10*time.Minute), "How long firing waits at most until the commands that wait at the broker were read, a cancellation perhaps: at the start, and after broker or database were away."},
		{"http_addr", DefaultHTTPAddr, listenPort(&c.HTTPAddr), "Address and port on which the service answers HTTP: health, metrics. Set and empty: no HTTP. If the port of the default is taken, another one is used, with a warning. Beyond the loopback interface it needs `http_token`."},
		{"http_token", "", password(&c.HTTPToken), "Token that HTTP requests must show (`Authorization: Bearer …`), all but those for `/livez` and `/readyz`. It is never printed."},
		{"http_prefix", "", prefix(&c.HTTPPrefix), "Path below which the service answers HTTP, such as `/timers`, for a proxy that passes it on."},
		{"log_level", "info", choice(&c.LogLevel, slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError), "Least severe level that is logged."},
		{"log_format", "text", choice(&c.LogFormat, Text, JSON), "Form of log lines, and of the lines that `serve` prints: `text` for people, `json` for machines."},
		{"log_fx", "false", choice(&c.LogFX, false, true), "`true`: how fx assembles, starts and stops the parts is logged, too. It is for those who work on the service."},
		{"nats_listen", "127.0.0.1", listen(&c.NATSListen), "Address on which the embedded NATS server listens, with or without a port. Beyond the loopback interface it needs `nats_token`."},
		{"nats_port", "4222", integer(&c.NATSPort, 0, 65_535), "Port of the embedded NATS server; 0 takes any free one. One that is set and taken is an error. If the default is taken the server takes a free one and keeps it for the next starts: the line `ready` has the address."},
		{"nats_stream", "svc", word(&c.NATSStream), "JetStream stream that holds commands, events and dead letters. It is created if absent."},
		{"nats_max_bytes", "8GiB", size(&c.NATSMaxBytes, 1<<20, 1<<50), "Size limit of that stream when the service creates it. A full stream refuses messages and loses none."},
		{"nats_max_age", "3d", duration(&c.NATSMaxAge, day, 3650*day), "How long that stream keeps messages when the service creates it. It must be shorter than `retention`: a command that is delivered after its timer was purged would create it again."},
		{"nats_min_age", "1d", duration(&c.NATSMinAge, time.Hour, 3650*day), "Shortest time for which a stream may keep messages. An existing one that keeps them for less is refused."},
		{"nats_publish", "single", choice(&c.NATSPublish, Single, Batches), "How a hundred events or more are published to the servers of `broker_url`. `single`: each by itself. `batches`: in atomic batches of 1,000, which servers that sync each write (`sync_interval: always`) take about ten times as fast, and others slower. The embedded server chooses by itself."},
		{"nats_domain", "", words(&c.NATSDomain), "JetStream domain that the stream is in. Empty: that of the server of `broker_url`."},
		{"nats_inbox", "", words(&c.NATSInbox), "Prefix of the subjects on which NATS answers. Empty: `_INBOX_timer-service` for the service and `_INBOX_timer-client` for clients. Give each tenant one of its own, and permission for no other."},
		{"nats_nkey", "", path(&c.NATSNKey), "File with the seed of an nkey for the NATS servers of `broker_url`. It is read at every connect."},
		{"nats_token", "", password(&c.NATSToken), "Token for the NATS servers of `broker_url`. Without that URL: the embedded server demands it of all but the service and those who read its secret file. It is never printed."},
		{"nats_credentials", "", path(&c.NATSCredentials), "File with credentials (`.creds`) for the NATS servers of `broker_url`."},
		{"kafka_sasl", "", sasl(&c.KafkaSASL), "How to log in to Kafka with `broker_username` and `broker_password`. Empty: not at all. `plain` sends the password as it is: use it with `kafka+ssl://`."},
		{"kafka_max_age", "3d", duration(&c.KafkaMaxAge, day, 3650*day), "How long Kafka's topics for commands and events keep messages when the service creates them. It must be shorter than `retention`: a command that is delivered after its timer was purged would create it again."},
		{"rabbitmq_exchange", "svc.direct", exchange(&c.RabbitMQExchange), "Direct exchange of RabbitMQ that everything is published to. It is created if absent."},
		{"rabbitmq_queue_type", "classic", choice(&c.RabbitMQQueueType, Classic, Quorum), "Type of the queues that the service creates in RabbitMQ. `quorum` keeps them on several nodes; messages that are requeued after a crash then come behind newer ones."},
	}
}

// schemes are those of the URLs of each broker.
var schemes = map[Broker][]string{
	NATS:     {"nats", "tls", "ws", "wss"},
	Kafka:    {"kafka", "kafka+ssl"},
	RabbitMQ: {"amqp", "amqps"},
}

// env returns the setting's name in the environment.
func (s setting) env() string { return EnvPrefix + strings.ToUpper(s.key) }

// flag returns the setting's name as a flag, without dashes before it.
func (s setting) flag() string { return strings.ReplaceAll(s.key, "_", "-") }

// lookUp returns the setting with the key.
func lookUp(table []setting, key string) (setting, bool) {
	if i := slices.IndexFunc(table, func(s setting) bool { return s.key == key }); i >= 0 {
		return table[i], true
	}
	return setting{}, false
}
