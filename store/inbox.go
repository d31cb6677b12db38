package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// An Inbox is the part of a [timer.Inbox] that does not depend on the database. A database embeds it
// and adds PutInbox and DeferInbox.
type Inbox struct {
	SQL    InboxStatements
	Rows   func(ctx context.Context, doing, text string, args []any, each func(Scanner) error) error // as [Reader.Rows]
	Change func(ctx context.Context, doing, text string, args ...any) (changed int, err error)       // as [Changer.Change]

	// Claim sets the RetryAt of messages that are due, of each tenant as many as its share
	// says, and returns them as they were, in any order.
	Claim func(ctx context.Context, now, until time.Time, shares []InboxShare) ([]timer.InboxMessage, error)

	last atomic.Value // a string: the last tenant of the last claim
}

// InboxStatements are the statements of an [Inbox], in the words of a database.
type InboxStatements struct {
	Due, Hasten, Delete, Next, Applied, Numbers, Purgeable string

	Counts Question
}

// InboxStatementsOf returns the statements that a database has, by their names.
func InboxStatementsOf(query func(name string) string) InboxStatements {
	return InboxStatements{
		Due: query("inbox_due"), Hasten: query("inbox_hasten"), Delete: query("inbox_delete"), Next: query("inbox_next"), Applied: query("inbox_applied"),
		Numbers: query("inbox_numbers"), Purgeable: query("inbox_purgeable"),
		Counts: Question{query("inbox_counts"), query("inbox_counts_tenant")},
	}
}

// An InboxShare is how many messages of a tenant are taken.
type InboxShare struct {
	TenantID string
	Messages int64
}

// TakeInbox returns messages that are due. If more tenants have some than limit says, the next
// call begins behind the last tenant of this one.
func (i *Inbox) TakeInbox(ctx context.Context, now, until time.Time, limit, each int, without []timer.TenantID) ([]timer.InboxMessage, error) {
	last, _ := i.last.Load().(string)
	shares, err := i.due(ctx, now, last, limit, each, without)
	if rest := limit - len(shares); err == nil && last != "" && rest > 0 {
		var first []InboxShare
		first, err = i.due(ctx, now, "", rest, each, without)
		for _, s := range first {
			if s.TenantID <= last {
				shares = append(shares, s)
			}
		}
	}
	if err != nil || len(shares) == 0 {
		return nil, err
	}
	i.last.Store(shares[len(shares)-1].TenantID)
	messages, err := i.Claim(ctx, timer.RoundDown(now), timer.RoundUp(until), divide(shares, int64(limit)))
	if err != nil {
		return nil, err
	}
	slices.SortFunc(messages, func(a, b timer.InboxMessage) int {
		return cmp.Or(a.RetryAt.Compare(b.RetryAt), cmp.Compare(a.Seq, b.Seq))
	})
	for n := range messages {
		messages[n].RetryAt = timer.RoundUp(until)
	}
	return messages, nil
}

// due returns the next tenants that have messages which are due, and how many, up to each.
func (i *Inbox) due(ctx context.Context, now time.Time, after string, limit, each int, without []timer.TenantID) (shares []InboxShare, err error) {
	names := make([]string, len(without))
	for n, tenant := range without {
		names[n] = string(tenant)
	}
	args := []any{timer.RoundDown(now), after, int64(limit), int64(each), names}
	err = i.Rows(ctx, "find due messages", i.SQL.Due, args, Collect(&shares, func(row Scanner) (s InboxShare, err error) {
		err = row.Scan(&s.TenantID, &s.Messages)
		return s, err
	}))
	return shares, err
}

// divide reduces the shares of at most limit tenants so that together they have at most limit
// messages: the greatest shares, to about the same size.
func divide(shares []InboxShare, limit int64) []InboxShare {
	slices.SortStableFunc(shares, func(a, b InboxShare) int { return cmp.Compare(a.Messages, b.Messages) })
	for n := range shares {
		shares[n].Messages = min(shares[n].Messages, limit/int64(len(shares)-n))
		limit -= shares[n].Messages
	}
	return shares
}

// HastenInbox makes messages due at a time that would be later than another one, in as many
// transactions as that takes.
func (i *Inbox) HastenInbox(ctx context.Context, due, later time.Time) error {
	return InSteps(HastenRows, func() (int, error) {
		return i.Change(ctx, "hasten messages of the inbox", i.SQL.Hasten, timer.RoundDown(due), timer.RoundUp(later), int64(HastenRows))
	})
}

// DeleteInbox deletes messages.
func (i *Inbox) DeleteInbox(ctx context.Context, seqs ...int64) error {
	_, err := i.Change(ctx, "delete from the inbox", i.SQL.Delete, seqs)
	return err
}

// NextInbox returns when the next message is handled again.
func (i *Inbox) NextInbox(ctx context.Context) (next time.Time, err error) {
	err = i.Rows(ctx, "find when a message waits until", i.SQL.Next, nil, Scan((*Time)(&next)))
	return next, err
}

// InboxCounts counts messages that wait.
func (i *Inbox) InboxCounts(ctx context.Context, tenant timer.TenantID) (counts []timer.InboxCount, err error) {
	text, args := i.SQL.Counts.Of(tenant)
	err = i.Rows(ctx, "count the messages of the inbox", text, args, func(row Scanner) error {
		var tenant string
		quota, failed := timer.InboxCount{Reason: timer.WaitQuota}, timer.InboxCount{Reason: timer.WaitFailed}
		err := row.Scan(&tenant, &quota.Messages, &quota.Bytes, (*Time)(&quota.Oldest), &failed.Messages, &failed.Bytes, (*Time)(&failed.Oldest))
		for _, c := range [...]timer.InboxCount{quota, failed} {
			if c.TenantID = timer.TenantID(tenant); c.Messages > 0 {
				counts = append(counts, c)
			}
		}
		return err
	})
	return counts, err
}

// AppliedSelections returns the selections of a tenant that were applied.
func (i *Inbox) AppliedSelections(ctx context.Context, tenant timer.TenantID, after int64) (selections []timer.InboxMessage, err error) {
	err = i.Rows(ctx, "read applied selections", i.SQL.Applied, []any{string(tenant), after}, Collect(&selections, ReadInboxMessage))
	return selections, err
}

// InInbox returns which numbers of a log are in the inbox, and the Seq of each.
func (i *Inbox) InInbox(ctx context.Context, log string, numbers ...int64) (map[int64]int64, error) {
	seqs := make(map[int64]int64)
	err := i.Rows(ctx, "look into the inbox", i.SQL.Numbers, []any{log, numbers}, func(row Scanner) error {
		var number, seq int64
		err := row.Scan(&number, &seq)
		seqs[number] = seq
		return err
	})
	return seqs, err
}

// PurgeApplied deletes selections that were applied. It looks for them without a transaction
// that writes: once they may be deleted, that stays so.
func (i *Inbox) PurgeApplied(ctx context.Context, before time.Time, limit int) (deleted int, err error) {
	var seqs []int64
	err = i.Rows(ctx, "find applied selections", i.SQL.Purgeable, []any{timer.RoundDown(before), int64(limit)}, Collect(&seqs, ReadNumber))
	if err != nil || len(seqs) == 0 {
		return 0, err
	}
	return i.Change(ctx, "purge applied selections", i.SQL.Delete, seqs)
}

// Waiting returns at most limit messages that wait in the inbox, after a number, in the
// order of their numbers.
func (r *Reader) Waiting(ctx context.Context, after int64, limit int) (messages []timer.InboxMessage, err error) {
	err = r.Rows(ctx, "list the messages of the inbox", r.SQL.Waiting, []any{after, int64(limit)}, Collect(&messages, ReadInboxMessage))
	return messages, err
}

// An InboxRow is a message in the form that is written. Times are Unix milliseconds.
type InboxRow struct {
	TenantID, Log, Topic, Position, MessageID, Headers, Reason, LastError string

	Body                       []byte
	Number, ArrivedAt, RetryAt int64 // 0 for a RetryAt that is null
	Bytes, Attempts            int32
}

// NewInboxRow returns the row of a message.
func NewInboxRow(m *timer.InboxMessage) InboxRow {
	headers := envelope.EncodeHeaders(m.Headers)
	return InboxRow{
		TenantID: Printable(string(m.TenantID)), Log: Printable(m.Log), Topic: Printable(m.Topic), Position: Printable(m.Position), MessageID: Printable(m.MessageID),
		Headers: string(headers), Reason: string(m.Reason), LastError: Printable(m.LastError),
		Body: append([]byte{}, m.Body...), Number: m.Number, ArrivedAt: timer.RoundDown(m.ArrivedAt).UnixMilli(), RetryAt: expiry(m.RetryAt),
		Bytes: int32(len(headers) + len(m.Body)), Attempts: int32(m.Attempts),
	}
}

// ReadInboxMessage reads a message in the inbox, in the order of [Columns]. One whose headers are
// damaged comes without them, so that it stops no other: its body says what counts.
func ReadInboxMessage(row Scanner) (m timer.InboxMessage, err error) {
	var headers string
	err = row.Scan(&m.Seq, (*string)(&m.TenantID), (*Text)(&m.Log), (*Number)(&m.Number), &m.Topic, &m.Position, &m.MessageID, &headers, &m.Body,
		(*Time)(&m.ArrivedAt), (*string)(&m.Reason), &m.Attempts, &m.LastError, (*Time)(&m.RetryAt))
	if err != nil {
		return m, fmt.Errorf("read a message of the inbox: %w", err)
	}
	m.Headers, _ = envelope.DecodeHeaders(headers)
	return m, nil
}
