package timer

import (
	"context"
	"time"
)

// A WaitReason says why a message is in the inbox.
type WaitReason string

// Reasons.
const (
	WaitQuota   WaitReason = "over_quota" // its commands exceed a quota of their tenant
	WaitFailed  WaitReason = "failed"     // its handling failed
	WaitApplied WaitReason = "applied"    // it does not wait: a selection that was applied, so that it is not applied again
)

// An InboxMessage is a message in the inbox, as the broker delivered it, before any middleware
// saw it.
type InboxMessage struct {
	Seq       int64    // its number in the inbox, which the store gives it
	TenantID  TenantID // [NoTenant] if the message names none
	Log       string   // log that it came from; empty if the broker keeps none, or after an import
	Number    int64    // its number in the log
	Topic     string   // topic that it was published to
	Position  string   // position in the topic, as dead letters name it; may be empty
	MessageID string   // as the broker has it
	Headers   map[string]string
	Body      []byte
	ArrivedAt time.Time // when it was first put into the inbox, by our clock
	Reason    WaitReason
	RetryAt   time.Time // when it is handled again; zero for [WaitApplied]
	Attempts  int       // that failed
	LastError string    // of the last attempt; may be empty
}

// An InboxCount counts messages of a tenant that wait for one reason.
type InboxCount struct {
	TenantID TenantID
	Reason   WaitReason
	Messages int64
	Bytes    int64     // of their bodies and headers
	Oldest   time.Time // when the first of them arrived
}

// An Inbox keeps messages that wait. It is the part of a store by which nothing waits at the
// broker for long. All methods are safe for concurrent use, by several instances, too.
type Inbox interface {
	// PutInbox adds messages, in one transaction. Their Seq is not used. A message of a Log
	// and Number that is there is not added again. One with [WaitApplied] replaces one that waits.
	PutInbox(ctx context.Context, messages ...InboxMessage) error

	// TakeInbox returns messages that wait and whose RetryAt is not after now: at most each
	// of a tenant, the earliest first, at most limit in all, shared fairly between tenants,
	// and none of the tenants in without. It sets their RetryAt to until, so that no other call
	// returns them before.
	TakeInbox(ctx context.Context, now, until time.Time, limit, each int, without []TenantID) ([]InboxMessage, error)

	// DeferInbox sets RetryAt, Reason, Attempts and LastError of messages that wait, by Seq.
	DeferInbox(ctx context.Context, messages ...InboxMessage) error

	// HastenInbox makes messages that wait due at a time if they would be later than another
	// one. A clock that was ahead had set their RetryAt.
	HastenInbox(ctx context.Context, due, later time.Time) error

	// DeleteInbox deletes messages by Seq, and ignores numbers of messages that are gone.
	DeleteInbox(ctx context.Context, seqs ...int64) error

	// NextInbox returns the earliest RetryAt of all messages that wait, or zero if none does.
	// It only reads.
	NextInbox(ctx context.Context) (time.Time, error)

	// InboxCounts returns the counts of a tenant, or of all if it is empty, by tenant and
	// reason. It leaves [WaitApplied] out.
	InboxCounts(ctx context.Context, tenant TenantID) ([]InboxCount, error)

	// AppliedSelections returns the messages of a tenant with [WaitApplied] whose Seq is
	// higher than after, the lowest first.
	AppliedSelections(ctx context.Context, tenant TenantID, after int64) ([]InboxMessage, error)

	// InInbox returns which of the numbers of a log are in the inbox, for any reason, and
	// the Seq of each.
	InInbox(ctx context.Context, log string, numbers ...int64) (map[int64]int64, error)

	// PurgeApplied deletes the messages with [WaitApplied] that a start does not read again and
	// that no waiting message may still meet. The number of the commands of their log has
	// reached them, or, if they came from no log, they arrived before a time, after which the
	// broker delivers them no more. No message of their tenant waits that arrived no later,
	// and none that has a lower number in their log. It returns how many it deleted, at most
	// limit. If there are none, it writes nothing.
	PurgeApplied(ctx context.Context, before time.Time, limit int) (deleted int, err error)
}
