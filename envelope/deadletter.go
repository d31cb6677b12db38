package envelope

import "strconv"

// TypeDeadLetter is the [HeaderType] of a dead letter. Its body is that of the
// refused message, byte for byte.
const TypeDeadLetter = "DeadLetter"

// TypeMark is the [HeaderType] of a mark: a message among the dead letters that says what
// an operator decided, for a database that is lost and recovered. HeaderMark is what it was:
// "discarded" (a dead letter, whose original the headers of a dead letter name), "forgotten"
// (the tenant), "paused" or "resumed" (firing, of the tenant or of all if there is none).
const (
	TypeMark        = "OperatorMark"
	HeaderMark      = "operatorMark"
	HeaderMarkBy    = "operatorMarkBy"    // who asked for it; may be absent
	HeaderMarkUntil = "operatorMarkUntil" // RFC 3339: when a pause ends; absent if it is to be resumed
)

// Headers of a dead letter, beside [HeaderType], [HeaderTenantID], a
// [HeaderMessageID] of its own and, if the original has one, its
// [HeaderCorrelationID].
const (
	HeaderDeadLetterReason     = "deadLetterReason"     // a timer.Reason
	HeaderDeadLetterDetail     = "deadLetterDetail"     // the reason for people, visible ASCII and spaces
	HeaderDeadLetterTopic      = "deadLetterTopic"      // topic of the original
	HeaderDeadLetterPosition   = "deadLetterPosition"   // position of the original in its topic; absent if unknown
	HeaderDeadLetterOriginalID = "deadLetterOriginalId" // id of the original: that of its body, else the one that it came with; absent if it has none
	HeaderDeadLetterFirstAt    = "deadLetterFirstAt"    // RFC 3339: when it first became a dead letter
	HeaderDeadLetterLastAt     = "deadLetterLastAt"     // RFC 3339: when it last became one
	HeaderDeadLetterCount      = "deadLetterCount"      // how often it became one, from "1"
	HeaderDeadLetterReplays    = "deadLetterReplays"    // how often it was replayed, from "0"; also on the replayed message
	HeaderDeadLetterTruncated  = "deadLetterTruncated"  // "true" if the body had to be cut because the broker refused it whole
)

// maxReplays bounds what is believed of the header.
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
