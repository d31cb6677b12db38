package envelope

import "strconv"

// TypeDeadLetter is the [HeaderType] of a dead letter. Its body is the body of the refused
// message, byte for byte.
const TypeDeadLetter = "DeadLetter"

// TypeMark is the [HeaderType] of a mark: a message among the dead letters that records a
// decision of an operator, so that it is known when a lost database is recovered. HeaderMark
// is the decision: "discarded" or "replayed" (a dead letter; the headers of a dead letter name
// its original), "forgotten" (the tenant), "paused" or "resumed" (firing, of the tenant or of
// all tenants if the mark names none).
const (
	TypeMark        = "OperatorMark"
	HeaderMark      = "operatorMark"
	HeaderMarkAt    = "operatorMarkAt"    // RFC 3339: when it was decided; absent in marks of dead letters, and of earlier versions
	HeaderMarkBy    = "operatorMarkBy"    // who asked for it; may be absent
	HeaderMarkSince = "operatorMarkSince" // RFC 3339: when a pause began
	HeaderMarkUntil = "operatorMarkUntil" // RFC 3339: when a pause ends; absent if it lasts until it is resumed
)

// Headers of a dead letter, in addition to [HeaderType], [HeaderTenantID], a
// [HeaderMessageID] of its own and, if the original has one, its
// [HeaderCorrelationID].
const (
	HeaderDeadLetterReason     = "deadLetterReason"     // a timer.Reason
	HeaderDeadLetterDetail     = "deadLetterDetail"     // the reason for people, visible ASCII and spaces
	HeaderDeadLetterTopic      = "deadLetterTopic"      // topic of the original
	HeaderDeadLetterPosition   = "deadLetterPosition"   // position of the original in its topic; absent if unknown
	HeaderDeadLetterOriginalID = "deadLetterOriginalId" // id in the body of the original, or the id of the broker's message if the body has none; absent if neither has one
	HeaderDeadLetterFirstAt    = "deadLetterFirstAt"    // RFC 3339: when it first became a dead letter
	HeaderDeadLetterLastAt     = "deadLetterLastAt"     // RFC 3339: when it last became one
	HeaderDeadLetterCount      = "deadLetterCount"      // how often it became one, from "1"
	HeaderDeadLetterReplays    = "deadLetterReplays"    // how often it was replayed, from "0"; also on the replayed message
	HeaderDeadLetterTruncated  = "deadLetterTruncated"  // "true" if the body had to be cut because the broker refused it whole
)

// maxReplays is the greatest number that is believed, since the header comes from outside.
const maxReplays = 1000

// ReplaysFrom returns how often a message was replayed from the dead letters, by
// its headers, or 0 if the header is absent or malformed. Get returns a header by
// its name, or "".
func ReplaysFrom(get func(name string) string) int {
	n, err := strconv.Atoi(get(HeaderDeadLetterReplays))
	if err != nil || n < 0 || n > maxReplays {
		return 0
	}
	return n
}
