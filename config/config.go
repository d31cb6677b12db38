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
	"strings"
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
