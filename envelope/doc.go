// Package envelope is the wire contract: what is in the body and the headers of
// every message that goes in or out, on every broker. A consumer or a producer
// written in Go needs this package and [timer]; one in another language needs
// docs/messages.md, which says the same.
//
// A message is one JSON object, an envelope or a CloudEvent 1.0, with a payload
// in it:
//
//	{"id":"…","type":"ScheduleTimer","tenantId":"acme","timestampMs":1893456000000,
//	 "payload":{"tenantId":"acme","serviceCallId":"sc-1","dueAt":"2030-01-01T00:00:00.000Z"}}
//
//	{"specversion":"1.0","id":"…","source":"/orders","type":"ScheduleTimer","time":"2030-01-01T00:00:00Z",
//	 "data":{"tenantId":"acme","serviceCallId":"sc-1","dueAt":"2030-01-01T00:00:00.000Z"}}
//
//	            [Schedule], [Cancel]          [Format.Reached]
//	 producer ──────────────────────► the service ─────────────► consumer
//	                         [Decode]                   [Decode]
//
// # Promises
//
//   - [Decode] is strict: whatever can be understood in two ways is refused, and
//     the error says why in a [timer.Reason] and in words. A message of a type
//     that is not ours is no error, so that teams may share a topic. No body is
//     both an envelope and a CloudEvent.
//   - Nothing invalid becomes valid by encoding it.
//   - A due time is rounded up to the millisecond, never down.
//   - The id of an event ([EventID]) is fixed once per generation of a timer. Its
//     bodies differ in reachedAt and timestampMs only, or time in a CloudEvent.
package envelope
