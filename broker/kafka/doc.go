// Package kafka is the driver for Apache Kafka and what speaks its protocol, on
// franz-go.
//
// # Topics
//
// Topics for commands and events are created if they are absent, with 12
// partitions. Those that exist are verified and never changed; one that could
// drop a message silently is refused, with an error that names the setting. A
// topic for dead letters is created with the first dead letter of its tenant.
//
// # Publishing
//
// The producer is idempotent and waits for all in-sync replicas. All messages of
// a call are sent at once, and each has its own result. A partition that takes
// nothing delays the others of a call by 2 seconds, once; by 0.2 seconds while it
// is known to fail. A topic that has to be made first, while the controller does not
// answer, delays them by up to 10 seconds. The key of a record is [broker.Key], so that all of a timer is
// in one partition; that of a dead letter is its own id. Kafka knows no ids: a
// message that is published twice is there twice.
//
// # Subscribing
//
// Every role and topic is a consumer group, "role.topic". All subscriptions of a
// process to one are one member of it. Messages are delivered in any order, but
// Kafka keeps one number a partition, below which everything is handled:
//
//	offset      0   1   2   3   4   5   6
//	handled     x   x   x   -   x   x   -
//	committed               3
//
// Nothing is committed before it is acked. What is handled above the number is
// delivered again after a crash; the versions of commands make that harmless.
//
//   - A message that waits for its retry is held in memory, outside of the bounds
//     of what is in flight. After 30 seconds, and at a stop, it is published again
//     to the end of its topic, with its time and its count of deliveries as
//     headers, and is then handled. So no message keeps the number back.
//   - If it can't be published again it stays in memory, and the number waits.
//   - When partitions go to another member, what is in flight has three seconds
//     to be acked. What is not is delivered again, there.
//
// # Owners
//
// Which database owns the commands is the metadata of an offset: see [Broker.Claim].
//
// # History
//
// Kafka keeps what was acked, and a log is a partition. Which numbers and names logs
// have is said in positions.go. What is above the committed offset is delivered again,
// so a replay of commands ends there.
//
// # Connection
//
// The driver connects and reconnects for ever. While there is no connection
// Publish fails at once, and subscriptions wait. Certificates are read again for
// each connection.
package kafka
