package config

import (
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"
)

const day = 24 * time.Hour

// A Config is every setting of the service. [Load] and [Default] return it complete and
// valid. It must not be changed once others use it.
type Config struct {
	PollingInterval      time.Duration  // longest sleep between polls of the store
	BatchSize            int            // timers per transaction
	Precision            time.Duration  // shortest time between two transactions of a kind
	DBPath               string         // file of the SQLite database
	DBURL                Secret         // PostgreSQL; empty selects SQLite
	BackupEvery          time.Duration  // time between copies of the SQLite database; 0: none
	BackupDir            string         // folder of the copies; empty if there are none
	BackupKeep           int            // how many copies are kept
	Broker               Broker         // kind of broker
	BrokerURL            Secret         // servers of the broker; empty with NATS: the embedded one
	BrokerUsername       string         // user at the broker; may be empty
	BrokerPassword       Secret         // password of that user
	BrokerTLSCA          string         // file with the broker's authorities; empty: the system's
	BrokerTLSCert        string         // file with the certificate of this client; may be empty
	BrokerTLSKey         string         // file with its key
	Provision            Provision      // how missing topics are handled
	Durability           Durability     // which failures an acknowledged command survives
	CommandsTopic        string         // where commands arrive; empty: the broker's default
	EventsTopic          string         // where events go; empty: the broker's default
	DeadLettersTopic     string         // where invalid commands go; empty: the broker's default
	Receipts             bool           // whether commands have receipts
	ReceiptsTopic        string         // where receipts go; empty: the broker's default
	UnknownTypes         UnknownTypes   // how messages that are not commands are handled
	EventFormat          EventFormat    // how events are written
	EventSource          string         // source of events that are CloudEvents, a URI-reference
	Retention            time.Duration  // how long timers are kept that fired or were canceled
	Horizon              time.Duration  // how far ahead a due time may lie
	MaxClockAhead        time.Duration  // how far ahead of the clock the time of a command may be
	InboxMessages        int            // messages of a tenant that may wait in the inbox
	InboxBytes           int64          // bytes of them
	InboxTotalBytes      int64          // bytes of the messages of all tenants that may wait
	DeadLetterBytes      int64          // bytes of dead letters of a tenant in a day
	DeadLetterTotalBytes int64          // bytes of dead letters of all tenants in a day
	MaxWait              time.Duration  // how long a message may wait in the inbox
	QuotasFile           string         // limits of each tenant; empty: none
	DrainTimeout         time.Duration  // how long a stop waits for messages in flight
	CatchUpTimeout       time.Duration  // how long firing waits for commands that wait at the broker
	Recover              Recovery       // how a lost database is handled
	StartPaused          bool           // whether firing begins paused where nobody has decided about it
	HTTPAddr             string         // address of HTTP; empty: not served
	HTTPToken            Secret         // token of HTTP requests
	HTTPTenantTokensFile string         // tokens of tenants, people and programs; empty: none
	HTTPTLSCert          string         // file with the certificate of HTTP; empty: no TLS
	HTTPTLSKey           string         // file with its key
	HTTPConnections      int            // most connections of HTTP over TCP; 0: a quarter of the files that the process may open
	HTTPPprof            bool           // whether profiles of the process are served
	HTTPReadOnly         bool           // whether HTTP requests that would change something are refused
	HTTPPrefix           string         // path below which HTTP is served; empty: "/"
	HTTPOrigin           string         // its URL for browsers behind a proxy; empty: as requested
	HTTPTrustedProxies   []netip.Prefix // whose X-Forwarded-For and X-Forwarded-Proto are believed
	HTTPSocket           string         // unix socket of HTTP; see Socket
	Server               Secret         // URL of a service that verbs ask; empty: the one on this machine
	LogLevel             slog.Level     // the least severe level that is logged
	LogFormat            LogFormat      // form of log lines
	NATSListen           string         // where the embedded server listens, perhaps with a port; see NATSAddress
	NATSPort             int            // port of the embedded server; 0: any free one; see NATSAddress
	NATSStream           string         // JetStream stream that holds commands, events and dead letters
	NATSMaxBytes         int64          // size limit of that stream, in bytes
	NATSMaxAge           time.Duration  // how long that stream keeps messages
	NATSMinAge           time.Duration  // how long a stream must keep messages
	NATSPublish          NATSPublish    // how events are published
	NATSDomain           string         // JetStream domain; empty: the domain of the server
	NATSInbox            string         // prefix of the subjects for answers; empty: one for the service, one for clients
	NATSNKey             string         // file with the seed of an nkey; may be empty
	NATSToken            Secret         // token for NATS
	NATSCredentials      string         // file with credentials for NATS; may be empty
	KafkaSASL            string         // how to log in to Kafka; empty: no login
	KafkaMaxAge          time.Duration  // how long topics that the service creates keep messages

	RabbitMQExchange  string    // exchange that events are published to
	RabbitMQQueueType QueueType // of queues that the service creates

	Takeover  bool   // own the commands, whichever database owns them; a flag of serve
	TestClock bool   // time stands still until a test moves it; a flag of serve
	Version   string // of the program; not a setting

	origins map[string]origin // where each setting came from, by key
	file    string            // that was read; empty if none was
	ignored []string          // variables that are not settings, see Ignored
}

// A setting is one row of a table.
type setting struct {
	key      string // as in the file
	fallback string // the default, as a user would write it
	value
	meaning string // one or two sentences, in Markdown
}

// settings is the table of all settings, whose values are in c. It has the order of the
// documentation.
func (c *Config) settings() []setting {
	return []setting{
		{"polling_interval", "5000", duration(&c.PollingInterval, time.Millisecond, time.Hour), "Longest sleep between two polls of the database. A timer that is due wakes the service sooner."},
		{"batch_size", "1000", integer(&c.BatchSize, 1, 10_000), "The most timers that fire in one transaction."},
		{"precision", "5ms", duration(&c.Precision, 0, time.Second), "While there is traffic, transactions of commands, and transactions that fire timers, begin at most once in this time, so that more commands and timers share them. That takes less CPU, and makes commands and timers later by at most that, see docs/performance.md. A command or a timer that comes alone waits for nothing. 0: transactions begin as soon as they can."},
		{"db_path", "./event_service.db", path(&c.DBPath), "File of the SQLite database. The file and its folder are created if they are absent."},
		{"db_url", "", database(&c.DBURL, "postgres", "postgresql"), "URL of a PostgreSQL database, instead of `db_path`. Any number of instances may share it. For a server on another machine it names an `sslmode`. Files that it names, such as `sslrootcert` and `passfile`, are read at every connect."},
		{"backup_every", "0s", duration(&c.BackupEvery, 0, 365*day), "How often the service copies the SQLite database into `backup_dir`, see docs/recovery.md. 0: never. PostgreSQL has tools of its own."},
		{"backup_dir", "", path(&c.BackupDir), "Folder of the copies. It must exist, and be that of this database alone."},
		{"backup_keep", "24", integer(&c.BackupKeep, 1, 100_000), "How many copies are kept."},
		{"broker", "nats", choice(&c.Broker, NATS, Kafka, RabbitMQ, GoChannel), "Message broker. `gochannel` lives in the memory of one process and is meant for tests."},
		{"broker_url", "", urls(&c.BrokerURL, slices.Concat(schemes[NATS], schemes[Kafka], schemes[RabbitMQ])...), "URL of the broker, or several with commas between them. Empty with `nats`: a server embedded in this process."},
		{"broker_username", "", anyText(&c.BrokerUsername), "User at the broker. Credentials in `broker_url` win."},
		{"broker_password", "", password(&c.BrokerPassword), "Password of that user."},
		{"broker_tls_ca", "", path(&c.BrokerTLSCA), "File (PEM) with the certificates that sign the broker's. Empty: the certificates that the system trusts."},
		{"broker_tls_cert", "", path(&c.BrokerTLSCert), "File (PEM) with the certificate that the service shows to the broker."},
		{"broker_tls_key", "", path(&c.BrokerTLSKey), "File (PEM) with the key of that certificate."},
		{"provision", "create", choice(&c.Provision, Create, Verify), "Who creates streams, topics and queues. `create`: the service. `verify`: an administrator, with `timer-service provision`; the service waits until they exist."},
		{"durability", "strict", choice(&c.Durability, Strict, Relaxed), "`strict`: every acknowledged command survives a loss of power. `relaxed`: faster, but a loss of power may lose the newest commands."},
		{"commands_topic", "", topic(&c.CommandsTopic), "Where commands arrive; `{tenant}` may stand for the tenant. Empty: the broker's default."},
		{"events_topic", "", topic(&c.EventsTopic), "Where events go; `{tenant}` may stand for the tenant. Empty: the broker's default."},
		{"dead_letters_topic", "", topic(&c.DeadLettersTopic), "Where invalid commands go, and those over a quota; `{tenant}` may stand for the tenant. Empty: the broker's default."},
		{"receipts", "false", choice(&c.Receipts, false, true), "`true`: each command has a receipt that says what became of it."},
		{"receipts_topic", "", topic(&c.ReceiptsTopic), "Where receipts go; `{tenant}` may stand for the tenant. Empty: the broker's default."},
		{"unknown_types", "dead_letter", choice(&c.UnknownTypes, DeadLetter, Ignore), "What happens to a message on the commands topic whose type is not a command. `dead_letter`: it is refused, so that a misspelled command is noticed. `ignore`: it is acknowledged and counted. Use it if teams share the topic."},
		{"event_format", "envelope", choice(&c.EventFormat, Envelope, CloudEvents), "Format of events: JSON envelopes, or CloudEvents 1.0 in structured JSON. Commands may have either format. Events that are in the outbox already keep theirs."},
		{"event_source", "/timer-service", uriReference(&c.EventSource), "`source` of CloudEvents."},
		{"retention", "7d", duration(&c.Retention, time.Hour, 3650*day), "How long timers are kept after they fired or were canceled. Set it longer than the broker may take to deliver a command again."},
		{"horizon", "3650d", duration(&c.Horizon, time.Minute, 73_000*day), "How far ahead a due time may lie. A later one is refused."},
		{"max_clock_ahead", "1d", duration(&c.MaxClockAhead, time.Minute, 73_000*day), "How far `timestampMs` of a command may be ahead of the service's clock. A later one is refused."},
		{"quotas_file", "", path(&c.QuotasFile), "YAML file with the limits of each tenant, see docs/quotas.md. It is loaded again when it changes. Empty: no limits."},
		{"inbox_messages", "100000", integer(&c.InboxMessages, 1, 100_000_000), "How many messages of a tenant may wait in the inbox, see docs/quotas.md. Beyond that its commands over a quota are dead letters, and if others fail its commands are not taken."},
		{"inbox_bytes", "64MiB", size(&c.InboxBytes, 1<<20, 1<<50), "How large the messages of a tenant that wait may be together."},
		{"inbox_total_bytes", "1GiB", size(&c.InboxTotalBytes, 1<<20, 1<<50), "How large the messages of all tenants that wait may be together."},
		{"dead_letter_bytes", "64MiB", size(&c.DeadLetterBytes, 1<<10, 1<<50), "How large the dead letters of a tenant may be together, in a day, and at most a sixteenth of `nats_max_bytes`. Beyond three quarters they have no bodies, beyond all of it there are none, see docs/quotas.md."},
		{"dead_letter_total_bytes", "1GiB", size(&c.DeadLetterTotalBytes, 1<<10, 1<<50), "The same of all tenants together, at most a quarter of `nats_max_bytes`."},
		{"max_wait", "3d", duration(&c.MaxWait, time.Minute, 3650*day), "How long a message waits in the inbox, at most three quarters of `retention`. Then it is a dead letter."},
		{"drain_timeout", "10s", duration(&c.DrainTimeout, 100*time.Millisecond, 10*time.Minute), "How long a stop waits for messages in flight and for the outbox."},
		{"catch_up_timeout", "10s", duration(&c.CatchUpTimeout, 100*time.Millisecond, 10*time.Minute), "At the start, and after broker or database were away, no timer fires until the commands that wait at the broker were read. This is the longest wait."},
		{"recover", "auto", choice(&c.Recover, Auto, Ask), "What happens at a start if the database was deleted, or is older than the broker knows, see docs/recovery.md. `auto`: it is recovered from the broker before anything fires. `ask`: the service does not start; `timer-service recover` recovers it."},
		{"start_paused", "false", choice(&c.StartPaused, false, true), "`true`: on a database where nobody has paused or resumed firing, it begins paused, until `timer-service resume`. For a standby, see docs/scaling.md. A restart after that pauses nothing."},
		{"http_addr", defaultHTTPAddr, listenPort(&c.HTTPAddr), "Address and port of the HTTP server for health, metrics, the JSON API and the dashboard. Set it to nothing for no HTTP. If the port of the default is in use, another one is taken, with a warning. An address beyond the loopback interface needs `http_token`, of 16 characters or more."},
		{"http_token", "", password(&c.HTTPToken), "Token that HTTP requests need (`Authorization: Bearer …`, or a login on `/login`), except for `/livez` and `/readyz`."},
		{"http_tenant_tokens_file", "", path(&c.HTTPTenantTokensFile), "YAML file with tokens of tenants, people and programs, see docs/api.md: a tenant's sees and changes that tenant only. It is loaded again when it changes. It needs `http_token`. Empty: none."},
		{"http_tls_cert", "", path(&c.HTTPTLSCert), "File (PEM) with the certificate of the HTTP server, and those between it and its authority. HTTP is HTTPS then, except on `http_socket`. It is loaded again when it or its key changes. Empty: no TLS."},
		{"http_tls_key", "", path(&c.HTTPTLSKey), "File (PEM) with the key of that certificate."},
		{"http_read_only", "false", choice(&c.HTTPReadOnly, false, true), "`true`: HTTP requests that would change something are refused, unless they come by `http_socket`."},
		{"http_connections", "0", integer(&c.HTTPConnections, 0, 1_000_000), "The most connections over TCP; some more are for `/livez` and `/readyz` alone. At the limit connections that have shown no token end first, the oldest before the others. 0: a quarter of the files that the process may open, at most 1000. `http_socket` is not limited."},
		{"http_pprof", "false", choice(&c.HTTPPprof, false, true), "`true`: profiles of the process at `/debug/pprof/`, for `go tool pprof`. They show the memory to everyone with `http_token`, or a token of all tenants that may operate."},
		{"http_prefix", "", text(&c.HTTPPrefix, "a path such as /timers", ", without a slash at its end", prefixPattern.MatchString), "Path in front of all paths of the HTTP server, such as `/timers`, for a proxy."},
		{"http_origin", "", text(&c.HTTPOrigin, "an origin", ", such as https://timers.example", isOrigin), "Where browsers reach the service through a proxy, such as `https://timers.example`."},
		{"http_trusted_proxies", "", parsed(&c.HTTPTrustedProxies, "addresses or networks", " with commas between them, such as 127.0.0.1,10.0.0.0/8", parsePrefixes, formatPrefixes), "Addresses of proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed."},
		{"http_socket", "", path(&c.HTTPSocket), "Unix socket on which HTTP is answered too, for the verbs on this machine: only the user of the service may open it. Empty: next to the SQLite file, with `.sock` after its name; none with PostgreSQL."},
		{"server", "", server(&c.Server), "URL of a running service that the verbs ask. Empty: the service of this machine, on `http_socket`, or on `http_addr` with PostgreSQL."},
		{"log_level", "info", choice(&c.LogLevel, slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError), "Least severe level that is logged."},
		{"log_format", "text", choice(&c.LogFormat, Text, JSON), "Form of log lines, and of the lines that `serve` prints."},
		{"nats_listen", "127.0.0.1", listen(&c.NATSListen), "Address on which the embedded NATS server listens. Beyond the loopback interface it needs `nats_token`."},
		{"nats_port", "4222", integer(&c.NATSPort, 0, 65_535), "Port of the embedded NATS server. 0: any free port. If the default is in use, the server chooses a free port and keeps it for later starts."},
		{"nats_stream", "svc", text(&c.NATSStream, "1 to 32 characters of A-Z a-z 0-9 _ -", "", wordPattern.MatchString), "JetStream stream that holds commands, events and dead letters. It is created if absent."},
		{"nats_max_bytes", "8GiB", size(&c.NATSMaxBytes, 1<<20, 1<<50), "Size limit of a stream that the service made. A full stream refuses messages and loses none."},
		{"nats_max_age", "3d", duration(&c.NATSMaxAge, day, 3650*day), "How long a stream that the service made keeps messages; a start applies a longer time. It must be shorter than `retention`: a command that is delivered after its timer was deleted would make the timer again."},
		{"nats_min_age", "1d", duration(&c.NATSMinAge, time.Hour, 3650*day), "A stream that keeps messages for less than this is refused."},
		{"nats_publish", "single", choice(&c.NATSPublish, Single, Batches), "How 100 or more events are published to the servers of `broker_url`: one by one, or in atomic batches, see docs/brokers/nats.md. The embedded server chooses by itself."},
		{"nats_domain", "", words(&c.NATSDomain), "JetStream domain that the stream is in. Empty: that of the server of `broker_url`."},
		{"nats_inbox", "", words(&c.NATSInbox), "Prefix of the subjects for replies. Empty: `_INBOX_timer-service` for the service, `_INBOX_timer-client` for clients."},
		{"nats_nkey", "", path(&c.NATSNKey), "File with the seed of an nkey for the NATS servers of `broker_url`. It is read at every connect."},
		{"nats_token", "", password(&c.NATSToken), "Token for the NATS servers of `broker_url`. Without `broker_url`: the token that clients of the embedded server need."},
		{"nats_credentials", "", path(&c.NATSCredentials), "File with credentials (`.creds`) for the NATS servers of `broker_url`."},
		{"kafka_sasl", "", text(&c.KafkaSASL, "plain, scram-sha-256 or scram-sha-512", "", saslPattern.MatchString), "How to log in to Kafka. Empty: no login. `plain` sends the password unencrypted: use it with `kafka+ssl://`."},
		{"kafka_max_age", "3d", duration(&c.KafkaMaxAge, day, 3650*day), "The same as `nats_max_age`, for topics of Kafka that the service creates."},
		{"rabbitmq_exchange", "svc.direct", exchange(&c.RabbitMQExchange), "Direct exchange of RabbitMQ. Commands have a topic exchange: this name and `.commands`. Both are created if absent."},
		{"rabbitmq_queue_type", "classic", choice(&c.RabbitMQQueueType, Classic, Quorum), "Type of the queues that the service creates in RabbitMQ. `quorum` keeps them on several nodes. After a crash, requeued messages then come after newer ones."},
	}
}

// schemes are the schemes of each broker's URLs.
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
