package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

const (
	itemBytes     = 80                       // of a timer in a message, without its service call and its data; approximate
	maxItemsBytes = envelope.MaxBytes - 4096 // of the timers in a message
	csvHeader     = "tenant,call,due"        // an optional first line
	fileForms     = "tenant,call,due or {\"tenantId\":…,\"serviceCallId\":…,\"dueAt\":…,\"data\":…}"
)

// A batch is the timers of a tenant that are not published yet.
type batch struct {
	timer.ScheduleTimers
	bytes int
	calls map[timer.ServiceCallID]bool // a message names each once
}

// A fileScheduler schedules the timers of a file, many of a tenant with one message.
type fileScheduler struct {
	*sender
	env     *env
	batches map[timer.TenantID]*batch
}

// runFile publishes the timers of a file.
func (s *scheduleCmd) runFile(ctx context.Context, e *env) error {
	return sendFile(ctx, e, "schedule", s.File, "timers", "schedule it", func(s *sender, in io.Reader) error {
		f := &fileScheduler{sender: s, env: e, batches: make(map[timer.TenantID]*batch)}
		return f.scheduleAll(ctx, in)
	})
}

// scheduleAll publishes the timers of a reader, until its end or that of ctx.
func (f *fileScheduler) scheduleAll(ctx context.Context, in io.Reader) error {
	lines, failed := readLines(ctx, in)
	for line := range lines {
		if line.number == 1 && string(line.body) == csvHeader {
			continue
		}
		c, err := parseTimer(line)
		if err != nil {
			f.refuse(line.number, err)
			continue
		}
		size := len(c.ServiceCallID) + len(c.Data) + itemBytes
		b := f.batches[c.TenantID]
		if b != nil && (len(b.Commands) == timer.MaxScheduleTimers || b.bytes+size > maxItemsBytes || b.calls[c.ServiceCallID]) {
			if err := f.flush(ctx, b); err != nil {
				return err
			}
			b = nil
		}
		if b == nil {
			b = &batch{ScheduleTimers: timer.ScheduleTimers{TenantID: c.TenantID}, calls: make(map[timer.ServiceCallID]bool)}
			f.batches[c.TenantID] = b
		}
		b.Commands = append(b.Commands, c)
		b.bytes += size
		b.calls[c.ServiceCallID] = true
	}
	if ctx.Err() != nil {
		return errInterrupted
	}
	for _, b := range f.batches {
		if err := f.flush(ctx, b); err != nil {
			return err
		}
	}
	return <-failed
}

// flush publishes a batch.
func (f *fileScheduler) flush(ctx context.Context, b *batch) error {
	delete(f.batches, b.TenantID)
	b.Version = client.NewVersion(f.env.now())
	for n := range b.Commands {
		b.Commands[n].Version = b.Version
	}
	m, err := client.Marshaler{}.Marshal(b.ScheduleTimers)
	if err != nil {
		return err
	}
	topic := f.client.Routing().CommandsOf(b.TenantID)
	if err := f.client.Publisher().Publish(ctx, broker.Message{Topic: topic, Message: m})[0]; err != nil {
		return fmt.Errorf("%d timers of %s: %w", len(b.Commands), b.TenantID, err)
	}
	f.sent += len(b.Commands)
	f.progress.add(len(b.Commands))
	return nil
}

// parseTimer returns the command of a line, without its version.
func parseTimer(l line) (c timer.ScheduleTimer, err error) {
	if l.err != nil {
		return c, l.err
	}
	var fields struct {
		TenantID, ServiceCallID, DueAt string
		Data                           json.RawMessage
	}
	if l.body[0] == '{' {
		err = json.Unmarshal(l.body, &fields)
	} else if parts := strings.Split(string(l.body), ","); len(parts) == 3 {
		fields.TenantID, fields.ServiceCallID, fields.DueAt = strings.TrimSpace(parts[0]), strings.TrimSpace(parts[1]), strings.TrimSpace(parts[2])
	} else {
		err = errors.New("not three values")
	}
	if err != nil {
		return c, fmt.Errorf("is not %s", fileForms)
	}
	c.Key = timer.Key{TenantID: timer.TenantID(fields.TenantID), ServiceCallID: timer.ServiceCallID(fields.ServiceCallID)}
	if err := c.Key.Validate(); err != nil {
		return c, err
	}
	if c.DueAt, err = envelope.ParseTime(fields.DueAt); err != nil {
		return c, err
	}
	if c.Data = string(fields.Data); c.Data != "" {
		// Alone in a message it must be valid.
		c.Version = timer.Version{CommandID: "line"}
		one := timer.ScheduleTimers{TenantID: c.TenantID, Version: c.Version, Commands: []timer.ScheduleTimer{c}}
		if _, err := (client.Marshaler{}).Marshal(one); err != nil {
			return c, err
		}
	}
	return c, timer.ValidateDueAt(c.DueAt)
}
