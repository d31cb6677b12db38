package handlers

import (
	"context"
	"slices"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/timer"
)

// Decode returns the commands of a message that a broker has stored at a time, by the rules
// that applied then: the commands of a ScheduleTimer or ScheduleTimers, or a CancelTimer or
// CancelTimers, which has an id then. None asks for a receipt. The message passes the host's
// middleware, as it did then. An error that wraps [timer.ErrInvalid] says why the message is
// invalid. For a message that is not a command and may be ignored, Decode returns neither
// commands nor an error.
func (h *Handlers) Decode(ctx context.Context, msg *message.Message, stored time.Time) (schedules []timer.ScheduleTimer, cancel timer.CancelTimers, err error) {
	msg.SetContext(ctx)
	decode := func(msg *message.Message) ([]*message.Message, error) {
		d := &delivery{Context: ctx, values: ctx, msg: msg}
		if err := h.decodeCommands(d, stored); err != nil {
			return nil, err
		}
		schedules = d.schedules
		for i := range schedules {
			schedules[i].Receipt = false
		}
		cancel = d.cancel
		cancel.Receipt = false
		return nil, nil
	}
	for _, m := range slices.Backward(h.opt.Middleware) {
		decode = m(decode)
	}
	_, err = decode(msg)
	return schedules, cancel, err
}
