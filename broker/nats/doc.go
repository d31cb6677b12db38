// Package nats is the driver for NATS JetStream: a server elsewhere, or one
// embedded in this process ([StartEmbedded]).
//
// # Stream
//
// One stream holds commands, events and dead letters. It is created if it is
// absent. One that exists is verified and never changed; one that could drop a
// message silently is refused, with an error that names the setting.
//
// # Publishing
//
// All messages of a call are sent at once and each is waited for, so a call
// costs one round trip. Its messages keep their order, unless one fails: then
// those after it may have been stored.
//
// # Subscribing
//
// Every role and topic has a durable pull consumer, which outlives the
// subscription and counts deliveries without a limit. Within a subscription:
//
//   - Messages of one key ([broker.Key]) are delivered one after the other, in
//     the order of the stream, each after the one before it was acked or nacked.
//   - A nacked message gives way. It returns after [broker.RedeliveryDelay],
//     behind those of its key that came meanwhile. One that can't be handled
//     delays nobody but itself.
//   - What was not acked when the connection broke returns within 30 seconds,
//     also behind others of its key.
//   - Instances of a role share messages, not keys: two instances may work on
//     messages of one key at the same time.
//
// # Connection
//
// The driver connects and reconnects for ever, and finds a connection that died
// without a word within 15 seconds. While there is none, Publish fails at once,
// and subscriptions wait.
package nats
