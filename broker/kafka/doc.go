// Package kafka is the driver for Apache Kafka and what speaks its protocol, on
// franz-go.
//
// # Topics
//
// Topics for commands and events are created if they are absent, with 12
// partitions. Those that exist are verified and never changed; one that could
// drop a message silently is refused, with an error that names the setting. A
// topic for dead letters is created with the first letter of its tenant, and
// keeps its letters until somebody removes them.
//
// # Publishing
//
// The producer is idempotent and waits for all in-sync replicas. All messages of
// a call are sent at once and each is waited for. The key of a record is the
// ordering key ([broker.Key]), so that all of a timer is in one partition and
// keeps its order; that of a dead letter is its own id. Kafka knows no ids: what
// a caller publishes twice is there twice.
//
// # Subscribing
//
// Every role and topic is a consumer group, "role.topic". All subscriptions of a
// process to one are one member of it. Messages are handled in any order, but
// Kafka keeps one number a partition, below which everything is handled:
//
//	offset      0   1   2   3   4   5   6
//	handled     x   x   x   -   x   x   -
//	committed               3, and with it as metadata: 4 and 5
//
// Nothing is committed before it is acked. What is handled above the number is
// kept in the metadata of the commit, so that neither a restart nor a rebalance
// delivers it again, as far as 3,000 bytes hold it.
//
//   - Messages of one key are delivered one after the other, in the order of
//     their partition, each after the one before it was acked or nacked.
//   - A nacked message waits in memory for [broker.RedeliveryDelay] and delays
//     nobody. Deliveries are counted by this process: Kafka does not count.
//   - When partitions go to another member, what is in flight has three seconds
//     to be acked. What is not is delivered again, there.
//   - Two subscriptions of a role in one process share partitions, not keys:
//     when one comes or goes, a key may for a moment be with both.
//
// # Connection
//
// The driver connects and reconnects for ever. While there is no connection
// Publish fails at once, and subscriptions wait.
package kafka
