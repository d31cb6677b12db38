// Package config holds every setting of the service in one table: its key, its default, its
// meaning and its values. [Load] reads settings from a file, the environment and flags, in
// this order, so that a flag wins over the environment and the environment over the file. It
// reports all mistakes at once, and never prints a secret.
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

// These are the brokers.
const (
	NATS      Broker = "nats"
	Kafka     Broker = "kafka"
	RabbitMQ  Broker = "rabbitmq"
	GoChannel Broker = "gochannel"
)

// A NATSPublish says how messages are published to NATS.
type NATSPublish string

// These are the ways to publish to NATS.
const (
	Single  NATSPublish = "single"  // each message by itself
	Batches NATSPublish = "batches" // in atomic batches: for servers that sync each write
)

// A Provision says how the service handles topics, streams and queues that do not exist.
type Provision string

// These are the ways to handle them.
const (
	Create Provision = "create" // create them
	Verify Provision = "verify" // wait until they exist
)

// A QueueType says how RabbitMQ keeps queues.
type QueueType string

// These are the types of queues.
const (
	Classic QueueType = "classic" // on one node
	Quorum  QueueType = "quorum"  // on several
)

// A Durability says which failures an acknowledged command survives.
type Durability string

// These are the durabilities.
const (
	Strict  Durability = "strict"  // a loss of power
	Relaxed Durability = "relaxed" // a crash of the process, but perhaps not a loss of power
)

// An UnknownTypes says how messages of a type that is not a command are handled.
type UnknownTypes string

// These are the ways to handle them.
const (
	DeadLetter UnknownTypes = "dead_letter" // they are refused
	Ignore     UnknownTypes = "ignore"      // they are acknowledged: teams share the topic
)

// A Recovery says how a start handles a database that was lost, or is older than the broker's
// records.
type Recovery string

// These are the ways to handle it.
const (
	Auto Recovery = "auto" // it is recovered from the broker
	Ask  Recovery = "ask"  // the service does not start
)

// An EventFormat names how events are written.
type EventFormat string

// These are the formats of events.
const (
	Envelope    EventFormat = "envelope"    // the JSON envelope of the service
	CloudEvents EventFormat = "cloudevents" // CloudEvents 1.0, structured JSON
)

// A LogFormat names the form of log lines.
type LogFormat string

// These are the formats of log lines.
const (
	Text LogFormat = "text" // key=value, for people
	JSON LogFormat = "json" // one object on each line, for machines
)

// Default returns the configuration of a service without any settings.
func Default() Config {
	c := Config{origins: make(map[string]origin)}
	for _, s := range c.settings() {
		if err := s.set(s.fallback); err != nil {
			panic(fmt.Sprintf("config: default of %s: %v", s.key, err))
		}
	}
	return c
}

// Ignored returns the names of variables that look like settings but are not: Kubernetes sets
// them for its Services.
func (c Config) Ignored() []string { return c.ignored }

// SecretFile returns the name of the file that a secret was read from, or "" if none was.
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
