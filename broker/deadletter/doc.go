// Package deadletter is what people do with dead letters: list them, replay what
// was mended, discard the rest.
//
//	commands ──► handlers ──invalid──► dead letters of the tenant
//	    ▲                                  │
//	    └──────────── Replay ◄─────────────┤ List: nothing changes
//	                                       └──► Discard: gone for good
//
// # Promises
//
//   - A letter is removed only after its replay is durable. Whoever is killed in
//     between leaves the letter, and replays it once more: under the same id,
//     which most brokers drop, and as the same version of its timer, which changes
//     nothing.
//   - What is replayed is the original body with none of the failure but two
//     headers: how often it was replayed, and when it first failed. If it fails
//     again the next letter counts on from there; after [MaxReplays] it stays.
//   - A letter goes to the commands of its own tenant, whatever its headers say.
//   - Letters may come from anybody. Headers that make no sense count as absent,
//     and no letter ends a visit to the others.
package deadletter
