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

// A Provision says what the service does about topics, streams and queues that
// are not there.
type Provision string

// What may be done about them.
const (
	Create Provision = "create" // make them
	Verify Provision = "verify" // wait until somebody has made them
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
	PollingInterval  time.Duration // longest sleep between looks at the store
	BatchSize        int           // timers per transaction
	DBPath           string        // file of the SQLite database
	DBURL            Secret        // PostgreSQL; empty selects SQLite
	Broker           Broker        // kind of broker
	BrokerURL        Secret        // servers of the broker; empty with NATS: the embedded one
	BrokerUsername   string        // user at the broker; may be empty
	BrokerPassword   Secret        // password of that user
	BrokerTLSCA      string        // file with certificates that sign the broker's; empty: those of the system
	BrokerTLSCert    string        // file with the certificate of this client; may be empty
	BrokerTLSKey     string        // file with its key
	Provision        Provision     // what is done about topics that are not there
	Durability       Durability    // what an acknowledged command survives
	CommandsTopic    string        // where commands arrive; empty: the broker's default
	EventsTopic      string        // where events go; empty: the broker's default
	DeadLettersTopic string        // where invalid commands go; empty: the broker's default
	EventFormat      EventFormat   // how events are written
	EventSource      string        // source of events that are CloudEvents, a URI-reference
	Retention        time.Duration // how long timers are kept that fired or were canceled
	Horizon          time.Duration // how far ahead a due time may lie
	QuotasFile       string        // what each tenant may have; empty: anything
	DrainTimeout     time.Duration // how long a stop waits for what is in flight
	LogLevel         slog.Level    // the least severe level that is logged
	LogFormat        LogFormat     // form of log lines
	NATSPort         int           // port of the embedded server; 0: any free one
	NATSStream       string        // JetStream stream that holds commands, events and dead letters
	NATSMaxBytes     int64         // size limit of that stream, in bytes
	NATSMaxAge       time.Duration // how long that stream keeps messages
	NATSMinAge       time.Duration // how long a stream must keep messages
	NATSDomain       string        // JetStream domain; empty: that of the server
	NATSInbox        string        // what subjects for answers begin with; empty: by who it is
	NATSNKey         string        // file with the seed of an nkey; may be empty
	NATSToken        Secret        // token for NATS
	NATSCredentials  string        // file with credentials for NATS; may be empty
	KafkaSASL        string        // how to log in to Kafka; empty: not at all
	KafkaMaxAge      time.Duration // how long topics keep messages that the service creates

	RabbitMQExchange  string    // exchange that everything is published to
	RabbitMQQueueType QueueType // of queues that are made

	origins map[string]origin // where each setting came from, by key
}

// Default returns the configuration of a service that was told nothing.
func Default() Config {
	c := Config{origins: make(map[string]origin, len(settings))}
	for _, s := range settings {
		if err := s.set(&c, s.fallback); err != nil {
			panic(fmt.Sprintf("config: default of %s: %v", s.key, err))
		}
	}
	return c
}

// Embedded reports whether the broker is the NATS server inside this process.
func (c Config) Embedded() bool { return c.Broker == NATS && c.BrokerURL.Empty() }
