// Package envelope is the wire contract: body and headers of every message in or
// out, on every broker. A consumer or a producer
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
//	  [Schedule], [ScheduleMany], [Cancel]        [Format.Reached]
//	 producer ─────────────────────────► the service ─────────────► consumer
//	                            [Decode]                   [Decode]
//
// # Promises
//
//   - [Decode] is strict: an ambiguous message is refused, and the error has a
//     [timer.Reason] and a text. A message of a type that is not ours is no error,
//     so that teams may share a topic. No body is both an envelope and a
//     CloudEvent.
//   - An invalid command or event does not become valid by encoding it.
//   - The data of a timer are never decoded and encoded again: an event has them byte
//     for byte as the command had.
//   - A due time and an expiry are rounded up to the millisecond, never down.
//   - The id of an event ([EventID]) is fixed once per generation of a timer. Its
//     bodies differ in reachedAt (or expiredAt) and timestampMs only, or time in a CloudEvent.
package envelope
