// Package rabbitmq is the driver for RabbitMQ, over AMQP 0-9-1.
//
// # Exchange and queues
//
// Everything is published to one direct exchange, with the topic as the routing
// key. Each topic has a durable queue of its name, for the role that
// [Options.Role] names and for consumers that are not ours; another role has a
// queue "topic.role" under the same key. The queue of a topic is made before
// something is published to it first, that of another role when it subscribes: a
// role gets nothing of what was published before. An exchange or a queue that is
// there is compared and never changed.
//
// # Publishing
//
// Messages are persistent, and a call returns when the server has confirmed all
// of them. They are sent one behind the other, 1000 are on their way at most. A
// message that the server returns since no queue takes it has failed, and so
// has one that it does not confirm.
//
// # Subscribing
//
// A subscription has a connection of its own and up to 4096 messages in flight.
// What was not acked when the connection breaks is delivered again, to whoever
// consumes from the queue then.
//
//   - Messages of one key ([broker.Key]) are delivered one after the other, in
//     the order of the queue, each after the one before it was acked or nacked.
//   - A nacked message gives way. It is held here, while the server waits for its
//     ack, and returns after [broker.RedeliveryDelay] behind those of its key
//     that came meanwhile.
//   - After a break, classic queues deliver messages in their old order, quorum
//     queues in any. A handler may still be working on a message that is
//     delivered again.
//   - Instances of a role share a queue. On that of commands one of them consumes
//     at a time (single active consumer).
//
// # Connections
//
// There is one for publishing, which the server stops reading when it is low on
// memory or disk, and one for all else. Each is made again for ever, and found
// dead within 15 seconds.
package rabbitmq
