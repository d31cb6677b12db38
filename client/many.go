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
// message, which the service takes or refuses as a whole. A timer that has a version
// is in a message of its own, and so is one whose data are too deep for a list. If a
// key is there twice the later one wins.
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
		if messages[i], err = p.message(); err != nil {
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
	number int  // from 1; a later one has a newer version
	alone  bool // it is a ScheduleTimer
	bytes  int
}

// A sender is what the timers of one message have in common.
type sender struct {
	tenant      timer.TenantID
	correlation string
}

// pack puts timers into messages, in the order in which they are to be sent.
func (c *Client) pack(ctx context.Context, timers []Timer) ([]*pack, error) {
	var packed []*pack
	open := make(map[sender]*pack)
	latest := make(map[timer.Key]int) // number of the pack that has the key
	now := c.opt.Clock.Now()
	for i, t := range timers {
		command, err := c.command(ctx, t, now)
		if err != nil {
			return nil, fmt.Errorf("timers[%d]: %w", i, err)
		}
		from := sender{t.TenantID, t.CorrelationID}
		size := len(command.ServiceCallID) + len(command.Data) + itemBytes
		if !command.ExpiresAt.IsZero() {
			size += expiryBytes
		}
		p := open[from]
		alone := t.Version != (timer.Version{}) || !fits(command)
		if alone || p == nil || len(p.Commands) == timer.MaxScheduleTimers || p.bytes+size > itemsBytes || latest[command.Key] >= p.number {
			p = &pack{number: len(packed) + 1, alone: alone}
			p.TenantID, p.Version = command.TenantID, command.Version
			packed = append(packed, p)
			if !alone {
				open[from] = p
			}
		}
		command.Version = p.Version
		p.Commands = append(p.Commands, command)
		p.bytes += size
		latest[command.Key] = p.number
	}
	return packed, nil
}

// fits reports whether a command can be in a list, which is two levels deeper.
func fits(c timer.ScheduleTimer) bool {
	if c.Data == "" {
		return true
	}
	_, err := Marshaler{}.Marshal(timer.ScheduleTimers{TenantID: c.TenantID, Version: c.Version, Commands: []timer.ScheduleTimer{c}})
	return err == nil
}

func (p *pack) message() (*message.Message, error) {
	if p.alone {
		return Marshaler{}.Marshal(p.Commands[0])
	}
	return Marshaler{}.Marshal(p.ScheduleTimers)
}
