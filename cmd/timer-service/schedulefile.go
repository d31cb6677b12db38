package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

const (
	timersAtOnce = 5000              // that are put into messages together
	csvHeader    = "tenant,call,due" // an optional first line
	fileForms    = "tenant,call,due or {\"tenantId\":…,\"serviceCallId\":…,\"dueAt\":…,\"data\":…}"
)

// runFile publishes the timers of a file, many of a tenant with one message.
func (s *scheduleCmd) runFile(ctx context.Context, e *env) error {
	return sendFile(ctx, e, "schedule", s.File, "timers", "schedule it", func(s *sender, in io.Reader) error {
		return s.scheduleAll(ctx, in, e.now)
	})
}

// scheduleAll publishes the timers of a reader, until its end or that of ctx.
func (s *sender) scheduleAll(ctx context.Context, in io.Reader, now func() time.Time) error {
	c := client.New(broker.NewWatermillPublisher(s.client.Publisher()), s.client.Routing(), client.Options{Clock: timer.ClockFunc(now)})
	var timers []client.Timer
	flush := func() error {
		if err := c.ScheduleMany(ctx, timers...); err != nil {
			return err
		}
		s.sent += len(timers)
		s.progress.add(len(timers))
		timers = nil
		return nil
	}
	lines, failed := readLines(ctx, in)
	for line := range lines {
		if line.number == 1 && string(line.body) == csvHeader {
			continue
		}
		t, err := parseTimer(line)
		if err == nil {
			_, err = t.Command(now())
		}
		if err != nil {
			s.refuse(line.number, err)
			continue
		}
		if timers = append(timers, t); len(timers) < timersAtOnce {
			continue
		}
		if err := flush(); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return errInterrupted
	}
	return errors.Join(flush(), <-failed)
}

// parseTimer returns the timer of a line.
func parseTimer(l line) (t client.Timer, err error) {
	if l.err != nil {
		return t, l.err
	}
	var fields struct {
		timer.Key
		DueAt string
		Data  json.RawMessage
	}
	if l.body[0] == '{' {
		err = json.Unmarshal(l.body, &fields)
	} else if parts := strings.Split(string(l.body), ","); len(parts) == 3 {
		fields.TenantID, fields.ServiceCallID = timer.TenantID(strings.TrimSpace(parts[0])), timer.ServiceCallID(strings.TrimSpace(parts[1]))
		fields.DueAt = strings.TrimSpace(parts[2])
	} else {
		err = errors.New("not three values")
	}
	if err != nil {
		return t, fmt.Errorf("is not %s", fileForms)
	}
	due, err := envelope.ParseTime(fields.DueAt)
	return client.Timer{TenantID: fields.TenantID, ServiceCallID: fields.ServiceCallID, DueAt: due, Data: fields.Data}, err
}
