package handlers

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/retry"
	"github.com/event-service-agent/timer-service/timer"
)

// begin is the outermost middleware. It counts running handlers, gives a message the context
// of its handling, and puts the message into the inbox if it must wait, as it came.
func (h *Handlers) begin(next message.HandlerFunc) message.HandlerFunc {
	next = h.recoverer(next)
	return func(msg *message.Message) ([]*message.Message, error) {
		h.atWork.Add(1)
		defer h.end()
		msg.SetContext(drainContext{h.working, msg.Context()})
		d, came := receivedOf(msg), msg
		if d == nil {
			d = h.newDelivery(msg)
		}
		if len(h.opt.Middleware) > 0 { // which may change the message
			came = msg.Copy()
			came.Payload = bytes.Clone(msg.Payload)
			came.SetContext(msg.Context())
		}
		if d.row == nil && h.inbox.isPaused(func() timer.TenantID { return h.tenantOf(d, came) }) {
			return nil, h.leaveUnacked(d, came)
		}
		_, err := next(msg)
		switch {
		case err == nil && (d.exceeded == nil || d.invalid != nil):
			if d.row != nil {
				d.row.done()
			}
			return nil, nil
		case d.row != nil:
			h.waitAgain(d, came, err)
			return nil, nil
		case err != nil && (h.stopping.Err() != nil || errors.Is(err, timer.ErrLocked) || errors.Is(err, timer.ErrFatal)):
			return nil, err
		}
		return nil, h.wait(d, came, err)
	}
}

// leaveUnacked leaves a message of a paused tenant unacked. What would fill the window of the
// subscription, and delay other tenants, becomes a dead letter instead.
func (h *Handlers) leaveUnacked(d *receivedMessage, came *message.Message) error {
	if h.inbox.mayNack(len(came.Payload)) {
		d.msg.Nack()
		return nil
	}
	return h.makeDeadLetter(d, came, timer.Invalid(timer.ReasonNotHandled, "handling messages of its tenant fails, and no more of them may wait"))
}

// makeDeadLetter publishes the dead letter of a message whose handling failed.
func (h *Handlers) makeDeadLetter(d *receivedMessage, came *message.Message, reason error) error {
	err := h.dead.publish(&receivedMessage{ctx: came.Context(), msg: came, origin: envelope.OriginOf(came.Payload), invalid: reason})
	if err == nil {
		h.opt.Handled(Result{Type: cmp.Or(d.result.Type, "other"), Outcome: OutcomeInvalid})
	}
	return err
}

// tenantOf returns the tenant of a message that may not have been decoded.
func (h *Handlers) tenantOf(d *receivedMessage, came *message.Message) timer.TenantID {
	origin := d.origin
	if origin.TenantID == "" {
		origin = envelope.OriginOf(came.Payload)
	}
	return h.dead.tenantOf(&receivedMessage{msg: came, origin: origin})
}

// wait puts a message into the inbox, as it came: since it exceeds a quota, or since its
// handling failed.
func (h *Handlers) wait(d *receivedMessage, came *message.Message, failed error) error {
	tenant := h.tenantOf(d, came)
	m := h.inboxMessage(came)
	m.TenantID = tenant
	if failed == nil {
		h.exceeds(&m, d)
	} else {
		h.fails(&m, failed)
		if h.inbox.isFull(tenant, size(m)) {
			h.inbox.pause(tenant, size(m))
			return fmt.Errorf("no more messages of tenant %s may wait: %w", tenant, failed)
		}
	}
	if err := h.store.PutInbox(came.Context(), m.ArrivedAt, m); err != nil {
		h.endIfFatal(err)
		return fmt.Errorf("put a message into the inbox: %w", errors.Join(err, failed))
	}
	h.inbox.added(m)
	return nil
}

// waitAgain has a row of the inbox wait again. If the middleware of the host program failed, a row
// that has waited too long becomes a dead letter here, since the handler did not see it.
func (h *Handlers) waitAgain(d *receivedMessage, came *message.Message, failed error) {
	m := d.row.InboxMessage
	if failed == nil {
		h.exceeds(&m, d)
		d.row.wait(m)
		return
	}
	if h.stopping.Err() != nil { // a failure of a stop says nothing
		d.row.wait(d.row.again(h.clock.Now()))
		return
	}
	h.fails(&m, failed)
	if d.invalid == nil && h.waitedTooLong(m) {
		if err := h.makeDeadLetter(d, came, tooLong(m)); err == nil {
			d.row.done()
			return
		}
	}
	d.row.wait(m)
}

// exceeds records that the commands of a message exceed a quota. All of the tenant wait in
// the order of their arrival, unless a message has more timers than fit, and others may fit.
func (h *Handlers) exceeds(m *timer.InboxMessage, d *receivedMessage) {
	m.Reason, m.RetryAt, m.LastError = timer.WaitQuota, inOrder(*m, h.clock.Now()), visible(d.exceeded.Detail)
	if d.exceeded.Live && len(d.schedules) > 1 {
		m.RetryAt = h.clock.Now().Add(d.exceeded.Delay)
		return
	}
	h.inbox.exceed(m.TenantID, d.exceeded)
}

// fails records that the handling of a message failed.
func (h *Handlers) fails(m *timer.InboxMessage, failed error) {
	m.Attempts++
	m.Reason, m.LastError = timer.WaitFailed, visible(failed.Error())
	m.RetryAt = h.clock.Now().Add(retry.Inbox.After(m.Attempts))
	h.waiting.Note(1, []any{"tenant_id", m.TenantID}, "first_error", m.LastError, "first_message_uuid", m.MessageID, "first_attempts", m.Attempts)
}

// inboxMessage returns a message as it is in the inbox.
func (h *Handlers) inboxMessage(came *message.Message) timer.InboxMessage {
	meta := came.Metadata
	m := timer.InboxMessage{
		Topic:    cmp.Or(meta.Get(broker.MetaTopic), message.SubscribeTopicFromCtx(came.Context())),
		Position: meta.Get(broker.MetaPosition), Headers: make(map[string]string), Body: came.Payload, ArrivedAt: timer.RoundDown(h.clock.Now()),
	}
	if meta.Get(broker.MetaNoID) == "" {
		m.MessageID = came.UUID
	}
	for name, value := range meta {
		if !broker.IsMeta(name) {
			m.Headers[name] = value
		}
	}
	if log, number, ok := h.opt.Place(m.Topic, m.Position); ok {
		m.Log, m.Number = log, number
	}
	return m
}

// Fails returns a message that a start has read and whose middleware failed, as it waits in the
// inbox.
func (h *Handlers) Fails(m timer.InboxMessage, failed error) timer.InboxMessage {
	m.TenantID = h.tenantOf(new(receivedMessage), (&row{InboxMessage: m}).message(context.Background()))
	h.fails(&m, failed)
	return m
}

// waitedTooLong reports whether a message has waited as long as it may. A start puts messages into
// the inbox that arrived long ago, some of them only since it has not read the events behind them
// yet, so each is handled once from there.
func (h *Handlers) waitedTooLong(m timer.InboxMessage) bool {
	handled := m.LastError != "" && (m.Reason != timer.WaitFailed || m.Attempts > 1)
	return handled && h.clock.Now().Sub(m.ArrivedAt) >= h.inbox.limit.MaxWait
}

// tooLong says why a message that has waited too long becomes a dead letter.
func tooLong(m timer.InboxMessage) error {
	reason := timer.ReasonNotHandled
	if m.Reason == timer.WaitQuota {
		reason = timer.ReasonOverQuota
	}
	return timer.Invalid(reason, "it waited since %s; last: %s", m.ArrivedAt.UTC().Format(time.RFC3339), m.LastError)
}

// StuckTenants returns tenants whose messages fail for long in the inbox, or of whose messages
// it takes no more. It asks no store.
func (h *Handlers) StuckTenants() []StuckTenant { return h.inbox.stuckTenants() }

// FullInbox reports whether the inbox takes no more messages of any tenant, and returns the
// tenant that has most there, and how many bytes all have. It asks no store.
func (h *Handlers) FullInbox() (tenant timer.TenantID, bytes int64, full bool) {
	return h.inbox.fullOf()
}
