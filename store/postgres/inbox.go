package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// An inbox is the [timer.Inbox] of a store.
type inbox struct {
	store.Inbox
	s *Store
}

func newInbox(s *Store) *inbox {
	i := &inbox{s: s}
	i.SQL, i.Rows, i.Change, i.Claim = inboxStatements, s.rows, s.change, i.claim
	return i
}

// inboxRows is the most messages that a statement adds to the inbox.
const inboxRows = 500

// PutInbox adds messages to the inbox.
func (i *inbox) PutInbox(ctx context.Context, messages ...timer.InboxMessage) error {
	if len(messages) == 0 {
		return nil
	}
	return i.s.writing(ctx, doingPut, func(_ context.Context, t *transaction) error {
		t.putInbox(messages)
		return nil
	})
}

const doingPut = "put messages into the inbox"

func (t *transaction) putInbox(messages []timer.InboxMessage) {
	for n := range messages {
		if m := &messages[n]; m.Reason == timer.WaitApplied && m.Log != "" {
			t.later(step{text: sqlInboxReplace, args: []any{store.Printable(m.Log), m.Number}})
		}
	}
	for some := range slices.Chunk(messages, inboxRows) {
		t.later(step{text: sqlInboxPut, args: inboxColumns(some)})
	}
}

// inboxColumns returns the arguments of inbox_put.sql.
func inboxColumns(messages []timer.InboxMessage) []any {
	n := len(messages)
	tenants, logs, topics, positions, ids := make([]string, n), make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	headers, reasons, errors, bodies := make([]string, n), make([]string, n), make([]string, n), make([][]byte, n)
	numbers, arrived, retries, bytes, attempts := make([]int64, n), make([]int64, n), make([]int64, n), make([]int32, n), make([]int32, n)
	for i := range messages {
		r := store.NewInboxRow(&messages[i])
		tenants[i], logs[i], topics[i], positions[i], ids[i] = r.TenantID, r.Log, r.Topic, r.Position, r.MessageID
		headers[i], reasons[i], errors[i], bodies[i] = r.Headers, r.Reason, r.LastError, r.Body
		numbers[i], arrived[i], retries[i], bytes[i], attempts[i] = r.Number, r.ArrivedAt, r.RetryAt, r.Bytes, r.Attempts
	}
	return []any{tenants, logs, numbers, topics, positions, ids, headers, bodies, bytes, arrived, reasons, attempts, errors, retries}
}

// claim claims messages of tenants.
func (i *inbox) claim(ctx context.Context, now, until time.Time, shares []store.InboxShare) (messages []timer.InboxMessage, err error) {
	tenants, sizes := make([]string, len(shares)), make([]int64, len(shares))
	for n, s := range shares {
		tenants[n], sizes[n] = s.TenantID, s.Messages
	}
	err = i.s.write(ctx, "take messages from the inbox", sqlInboxTake, []any{now, tenants, sizes, until}, store.Collect(&messages, store.ReadInboxMessage))
	if err != nil {
		return nil, err
	}
	return messages, nil
}

// DeferInbox has messages wait.
func (i *inbox) DeferInbox(ctx context.Context, messages ...timer.InboxMessage) error {
	n := len(messages)
	seqs, retries, attempts, reasons, errors := make([]int64, n), make([]int64, n), make([]int32, n), make([]string, n), make([]string, n)
	for i := range messages {
		r := store.NewInboxRow(&messages[i])
		seqs[i], retries[i], attempts[i], reasons[i], errors[i] = messages[i].Seq, r.RetryAt, r.Attempts, r.Reason, r.LastError
	}
	_, err := i.s.change(ctx, "defer messages of the inbox", sqlInboxDefer, seqs, retries, reasons, attempts, errors)
	return err
}
