// Package config holds every setting of the service in one table: its key, its
// default, what it means and which values it takes. [Load] reads settings from
// a file, the environment and flags, in this order, so that a flag wins over
// the environment and the environment over the file. It reports all mistakes
// at once, and what is secret is never printed.
//
// One setting has one name, spelled three ways: polling_interval in the file,
// TIMER_POLLING_INTERVAL in the environment, --polling-interval as a flag.
package config

import (
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// A Broker names a kind of message broker.
type Broker string

// The brokers.
const (
	NATS      Broker = "nats"
	Kafka     Broker = "kafka"
	RabbitMQ  Broker = "rabbitmq"
	GoChannel Broker = "gochannel"
)

// A NATSPublish says how many messages at once are published to NATS.
type NATSPublish string

// Ways to publish.
const (
	Single  NATSPublish = "single"  // each by itself
	Batches NATSPublish = "batches" // in atomic batches: for servers that sync each write
)

// A Provision says what the service does about topics, streams and queues that
// do not exist.
type Provision string

// What may be done about them.
const (
	Create Provision = "create" // create them
	Verify Provision = "verify" // wait until they exist
)

// A QueueType says how RabbitMQ keeps queues.
type QueueType string

// Queue types.
const (
	Classic QueueType = "classic" // on one node
	Quorum  QueueType = "quorum"  // on several
)

// A Durability says what an acknowledged command survives.
type Durability string

// Durabilities.
const (
	Strict  Durability = "strict"  // a loss of power
	Relaxed Durability = "relaxed" // a crash of the process, but perhaps not a loss of power
)

// An UnknownTypes says what becomes of messages of a type that is no command.
type UnknownTypes string

// What may become of them.
const (
	DeadLetter UnknownTypes = "dead_letter" // they are refused
	Ignore     UnknownTypes = "ignore"      // they are acknowledged: teams share the topic
)

// A Recovery says what happens at a start if the database was lost, or is older than the
// broker knows.
type Recovery string

// What may happen.
const (
	Auto Recovery = "auto" // it is recovered from the broker
	Ask  Recovery = "ask"  // the service does not start
)

// An EventFormat names how events are written.
type EventFormat string

// Event formats.
const (
	Envelope    EventFormat = "envelope"    // the JSON envelope of the service
	CloudEvents EventFormat = "cloudevents" // CloudEvents 1.0, structured JSON
)

// A LogFormat names the form of log lines.
type LogFormat string

// Log formats.
const (
	Text LogFormat = "text" // key=value, for people
	JSON LogFormat = "json" // one object a line, for machines
)

// A Config is every setting of the service. [Load] and [Default] return it
// complete and valid. It is not to be changed once others use it.
type Config struct {
	PollingInterval      time.Duration // longest sleep between polls of the store
	BatchSize            int           // timers per transaction
	DBPath               string        // file of the SQLite database
	DBURL                Secret        // PostgreSQL; empty selects SQLite
	BackupEvery          time.Duration // how often the SQLite database is copied; 0: never
	BackupDir            string        // folder of the copies; empty if there are none
	BackupKeep           int           // how many of them are kept
	Broker               Broker        // kind of broker
	BrokerURL            Secret        // servers of the broker; empty with NATS: the embedded one
	BrokerUsername       string        // user at the broker; may be empty
	BrokerPassword       Secret        // password of that user
	BrokerTLSCA          string        // file with certificates that sign the broker's; empty: those of the system
	BrokerTLSCert        string        // file with the certificate of this client; may be empty
	BrokerTLSKey         string        // file with its key
	Provision            Provision     // what is done about topics that do not exist
	Durability           Durability    // what an acknowledged command survives
	CommandsTopic        string        // where commands arrive; empty: the broker's default
	EventsTopic          string        // where events go; empty: the broker's default
	DeadLettersTopic     string        // where invalid commands go; empty: the broker's default
	Receipts             bool          // whether commands have receipts
	ReceiptsTopic        string        // where receipts go; empty: the broker's default
	UnknownTypes         UnknownTypes  // what becomes of messages of a type that is no command
	EventFormat          EventFormat   // how events are written
	EventSource          string        // source of events that are CloudEvents, a URI-reference
	Retention            time.Duration // how long timers are kept that fired or were canceled
	Horizon              time.Duration // how far ahead a due time may lie
	MaxClockAhead        time.Duration // how far ahead of the clock the time of a command may be
	QuotasFile           string        // limits of each tenant; empty: none
	DrainTimeout         time.Duration // how long a stop waits for what is in flight
	CatchUpTimeout       time.Duration // how long firing waits for commands that wait at the broker
	Recover              Recovery      // what happens if the database was lost
	HTTPAddr             string        // where HTTP is answered; empty: nowhere
	HTTPToken            Secret        // token of HTTP requests
	HTTPTenantTokensFile string        // tokens of single tenants; empty: none
	HTTPPprof            bool          // whether profiles of the process are served
	HTTPReadOnly         bool          // whether HTTP requests that would change something are refused
	HTTPPrefix           string        // path below which HTTP is answered; empty: "/"
	HTTPSocket           string        // unix socket on which HTTP is answered; see Socket
	Server               Secret        // URL of a service that verbs ask; empty: the one on this machine
	LogLevel             slog.Level    // the least severe level that is logged
	LogFormat            LogFormat     // form of log lines
	LogFX                bool          // whether the assembly of the parts is logged
	NATSListen           string        // where the embedded server listens, perhaps with a port; see NATSAddress
	NATSPort             int           // port of the embedded server; 0: any free one; see NATSAddress
	NATSStream           string        // JetStream stream that holds commands, events and dead letters
	NATSMaxBytes         int64         // size limit of that stream, in bytes
	NATSMaxAge           time.Duration // how long that stream keeps messages
	NATSMinAge           time.Duration // how long a stream must keep messages
	NATSPublish          NATSPublish   // how events are published
	NATSDomain           string        // JetStream domain; empty: that of the server
	NATSInbox            string        // prefix of the subjects for answers; empty: one for the service, one for clients
	NATSNKey             string        // file with the seed of an nkey; may be empty
	NATSToken            Secret        // token for NATS
	NATSCredentials      string        // file with credentials for NATS; may be empty
	KafkaSASL            string        // how to log in to Kafka; empty: not at all
	KafkaMaxAge          time.Duration // how long topics keep messages that the service creates

	RabbitMQExchange  string    // exchange that everything is published to
	RabbitMQQueueType QueueType // of queues that the service creates

	Takeover bool   // own the commands at this start, whichever database owns them; a flag of serve, no setting
	Version  string // of the program, for those who look at it; no setting

	origins map[string]origin // where each setting came from, by key
	file    string            // that was read; empty if none was
	ignored []string          // variables that are no settings, see Ignored
}

// Default returns the configuration of a service for which nothing is set.
func Default() Config {
	c := Config{origins: make(map[string]origin)}
	for _, s := range c.settings() {
		if err := s.set(s.fallback); err != nil {
			panic(fmt.Sprintf("config: default of %s: %v", s.key, err))
		}
	}
	return c
}

// Ignored returns the names of variables that begin like settings and are none:
// Kubernetes sets them for its Services.
func (c Config) Ignored() []string { return c.ignored }

// SecretFile returns the name of the file if a secret was read from it, else "".
func (c Config) SecretFile() string {
	for _, s := range c.settings() {
		shown := s.show()
		if s.secret && c.From(s.key) == FromFile && strings.Contains(shown, hidden) {
			return c.file
		}
	}
	return ""
}

// Embedded reports whether the broker is the NATS server inside this process.
func (c Config) Embedded() bool { return c.Broker == NATS && c.BrokerURL.Empty() }
