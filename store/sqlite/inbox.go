package sqlite

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

// PutInbox adds messages to the inbox.
func (i *inbox) PutInbox(ctx context.Context, messages ...timer.InboxMessage) error {
	if len(messages) == 0 {
		return nil
	}
	return i.s.writing(ctx, doingPut, func(ctx context.Context, t *transaction) error { return t.putInbox(ctx, messages) })
}

const doingPut = "put messages into the inbox"

func (t *transaction) putInbox(ctx context.Context, messages []timer.InboxMessage) error {
	args := make([]any, 0, len(messages)*inboxPuts.columns)
	for n := range messages {
		r := store.NewInboxRow(&messages[n])
		if messages[n].Reason == timer.WaitApplied && r.Log != "" {
			if _, err := t.ExecContext(ctx, sqlInboxReplace, r.Log, r.Number); err != nil {
				return err
			}
		}
		args = append(args, r.TenantID, orNull(r.Log), inLog(r.Log, r.Number), r.Topic, r.Position, r.MessageID, r.Headers, r.Body,
			r.Bytes, r.ArrivedAt, r.Reason, r.Attempts, r.LastError, orNull(r.RetryAt))
	}
	_, err := t.insert(ctx, inboxPuts, args)
	return err
}

// inLog returns a number in a log, and null if there is no log.
func inLog(log string, number int64) any {
	if log == "" {
		return nil
	}
	return number
}

// claim claims messages of tenants. No other transaction can change them between the
// statements, since this one holds the write lock.
func (i *inbox) claim(ctx context.Context, now, until time.Time, shares []store.InboxShare) (messages []timer.InboxMessage, err error) {
	err = i.s.writing(ctx, "take messages from the inbox", func(ctx context.Context, t *transaction) error {
		for _, share := range shares {
			if err := each(ctx, t, store.Collect(&messages, store.ReadInboxMessage), sqlInboxDueTenant, share.TenantID, now.UnixMilli(), share.Messages); err != nil {
				return err
			}
		}
		seqs := make([]int64, len(messages))
		for n := range messages {
			seqs[n] = messages[n].Seq
		}
		slices.Sort(seqs)
		_, err := t.ExecContext(ctx, sqlInboxClaim, until.UnixMilli(), store.JSON(seqs))
		return err
	})
	if err != nil {
		return nil, err
	}
	return messages, nil
}

// DeferInbox has messages wait.
func (i *inbox) DeferInbox(ctx context.Context, messages ...timer.InboxMessage) error {
	return i.s.writing(ctx, "defer messages of the inbox", func(ctx context.Context, t *transaction) error {
		for n := range messages {
			r := store.NewInboxRow(&messages[n])
			if _, err := t.ExecContext(ctx, sqlInboxDefer, messages[n].Seq, r.RetryAt, r.Reason, r.Attempts, r.LastError); err != nil {
				return err
			}
		}
		return nil
	})
}
