// Package kafka is the driver for Apache Kafka and other servers that speak its
// protocol. It uses franz-go.
//
// # Topics
//
// If the topics for commands and events are absent, the driver creates them, with 12
// partitions. It verifies existing topics and never changes them. It refuses a topic that
// could drop a message silently, with an error that names the setting. A topic for dead
// letters is created with the first dead letter of its tenant.
//
// # Publishing
//
// The producer is idempotent and waits for all in-sync replicas. All messages of
// a call are sent at once, and each has its own result. A partition that takes
// nothing delays the others of a call once, by 2 seconds, or by 0.2 seconds while it
// is known to fail. If a topic has to be made and the controller does not answer, it
// delays them by up to 10 seconds. The key of a record is [broker.Key], so that all
// messages of a timer are in one partition. The key of a dead letter is its own id. Kafka
// does not deduplicate: a message that is published twice is stored twice.
//
// # Subscribing
//
// Every role and topic has a consumer group, "role.topic". All subscriptions of a
// process to the topic are one member of the group. Messages are delivered in any order,
// but Kafka keeps one offset for each partition, below which everything is handled:
//
//	offset      0   1   2   3   4   5   6
//	handled     x   x   x   -   x   x   -
//	committed               3
//
// No message is committed before it is acked. Messages that are handled above the
// committed offset are redelivered after a crash. The versions of commands make that
// harmless.
//
//   - A message that waits for its retry is held in memory, and does not count as in
//     flight. After 30 seconds, and at a stop, it is published again to the end of its
//     topic, with its time and its count of deliveries as headers. Its old record is
//     handled then, so that no message keeps the committed offset back.
//   - If it can't be published again it stays in memory, and the offset stays.
//   - When partitions go to another member, messages in flight have three seconds to be
//     acked. The rest is redelivered to that member.
//
// # Owners
//
// The metadata of an offset names the database that owns the commands: see
// [Broker.Claim].
//
// # History
//
// Kafka keeps messages that were acked, and each partition is a log. positions.go says
// how logs are named and numbered. Messages above the committed offset are redelivered
// anyway, so a replay of commands ends at that offset.
//
// # Connection
//
// The driver connects and reconnects for ever. Without a connection Publish fails at
// once, and subscriptions wait. Certificates are read again for each connection.
package kafka
