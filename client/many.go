package client

import (
	"context"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

const (
	itemBytes   = 64 // of a timer in a ScheduleTimers, without its service call, expiry and data
	expiryBytes = len(`,"expiresAt":"2006-01-02T15:04:05.000Z"`)
	itemsBytes  = envelope.MaxBytes - 1024 // of all timers in one
)

// ScheduleMany asks for timers, up to 500 of a tenant and correlation id with one
// message, which the service takes or refuses as a whole. It refuses a timer with a version,
// which [Client.Schedule] takes, a key that a message would have twice, and data that are
// nested deeper than 12.
//
// Nothing is sent if one of them is invalid; the error names the first that is. After
// any other error some were sent: schedule all of them again.
func (c *Client) ScheduleMany(ctx context.Context, timers ...Timer) error {
	packed, err := c.pack(ctx, timers)
	if err != nil {
		return err
	}
	messages := make([]*message.Message, len(packed))
	for i, p := range packed {
		if messages[i], err = Message(p.ScheduleTimers); err != nil {
			return err
		}
	}
	sent := 0
	for i, p := range packed {
		if err := c.publish(ctx, p.TenantID, messages[i]); err != nil {
			return fmt.Errorf("%d of %d timers were sent: %w", sent, len(timers), err)
		}
		sent += len(p.Commands)
	}
	return nil
}

// A pack is the timers of one message.
type pack struct {
	timer.ScheduleTimers
	index int // in the order of sending
	bytes int
}

// messageFields are the fields that all timers of one message have in common.
type messageFields struct {
	tenant      timer.TenantID
	correlation string
}

// pack puts timers into messages, in the order of sending.
func (c *Client) pack(ctx context.Context, timers []Timer) ([]*pack, error) {
	var packed []*pack
	open := make(map[messageFields]*pack)
	last := make(map[timer.Key]int) // index of the message that has the key
	now := c.opt.Clock.Now()
	for i, t := range timers {
		command, err := c.command(ctx, t, now)
		if err != nil {
			return nil, fmt.Errorf("timers[%d]: %w", i, err)
		}
		if t.Version != (timer.Version{}) {
			return nil, timer.Invalid(timer.ReasonBadField, "timers[%d] has a version; send it with Schedule", i)
		}
		size := len(command.ServiceCallID) + len(command.Data) + itemBytes
		if !command.ExpiresAt.IsZero() {
			size += expiryBytes
		}
		from := messageFields{t.TenantID, t.CorrelationID}
		p := open[from]
		// A timer that a newer message has, too, would be older in this one.
		if p == nil || len(p.Commands) == timer.MaxScheduleTimers || p.bytes+size > itemsBytes || last[command.Key] > p.index {
			p = &pack{ScheduleTimers: timer.ScheduleTimers{TenantID: command.TenantID, Version: command.Version}, index: len(packed)}
			packed = append(packed, p)
			open[from] = p
		}
		command.Version, last[command.Key] = p.Version, p.index
		p.Commands = append(p.Commands, command)
		p.bytes += size
	}
	return packed, nil
}
