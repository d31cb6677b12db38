package main

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// defaultTimeout is how long after the due time to wait for the event.
const defaultTimeout = duration(30 * time.Second)

type scheduleCmd struct {
	Tenant      string    `arg:"" help:"Owner of the timer: a letter or digit, then up to 63 of A-Z a-z 0-9 _ -."`
	Call        string    `arg:"" help:"Service call: 1 to 128 of A-Z a-z 0-9 _ . : -."`
	In          *duration `placeholder:"3s" help:"Due after this long: 3s, 90m, 7d, or milliseconds. 0 is due at once."`
	At          *instant  `placeholder:"TIME" help:"Due at this time: RFC 3339 with a zone, 2030-01-31T12:00:00Z. A time in the past is due at once."`
	Correlation string    `placeholder:"ID" help:"Correlation id, which the event will carry."`
	ID          string    `placeholder:"ID" help:"Id of the command; default a new UUIDv7. The broker takes an id once within its window."`
	Wait        bool      `help:"Wait for the event, and tell how late it was."`
	Timeout     *duration `placeholder:"30s" help:"How long after the due time to wait."`
}

// Help is printed below the summary.
func (scheduleCmd) Help() string {
	return `Publishes a ScheduleTimer. "published" means that the broker has it for good, not
yet that the service took it; with --wait the event, or the dead letter that
says why not, is awaited, and anything but the event is exit code 1. A key that
has a timer already gets the new due time. One that fired is final.

Examples:

    timer-service schedule acme order-1 --in 3s --wait
    timer-service schedule acme order-1 --at 2030-01-31T12:00:00+01:00
    timer-service schedule acme order-1 --in 2h --correlation req-7 -o json`
}

// Run publishes the command, and waits for what becomes of it if asked to.
func (s *scheduleCmd) Run(ctx context.Context, e *env) error {
	if err := s.check(); err != nil {
		return err
	}
	if _, err := s.command(e.now()); err != nil {
		return err
	}
	c, err := connect(ctx, e, "schedule")
	if err != nil {
		return err
	}
	defer c.close()
	var answers *tail
	if s.Wait {
		if answers, err = tailOf(ctx, c, timer.TenantID(s.Tenant)); err != nil {
			return err
		}
		defer answers.close()
	}

	asked, err := s.command(e.now()) // connecting took its time
	if err != nil {
		return err
	}
	cmd := command{
		id:      asked.CommandID,
		topic:   c.Routing().CommandsOf(asked.TenantID),
		body:    envelope.Schedule(asked),
		headers: envelope.ScheduleHeaders(asked),
	}
	if err := c.publish(cmd); err != nil {
		return err
	}
	done := publishedSchedule(asked, cmd)
	if !s.Wait {
		e.out.print(done)
		return nil
	}
	if !e.out.json {
		e.out.print(done) // at once, since the rest may take long
	}
	err = answers.await(ctx, e.now, asked, cmd, s.timeout(), done)
	switch {
	case e.out.json:
		e.out.print(done)
	case err == nil:
		fmt.Fprintln(e.out.w, done.reached())
	}
	return err
}

// check returns the mistakes that need no clock.
func (s *scheduleCmd) check() error {
	switch {
	case s.In == nil && s.At == nil:
		return wrong("schedule", "say when: --in 3s, or --at 2030-01-31T12:00:00Z")
	case s.In != nil && s.At != nil:
		return wrong("schedule", "--in and --at exclude each other; give one")
	case s.In != nil && *s.In < 0:
		return wrong("schedule", "--in must not be negative; 0 is due at once, and --at takes a time in the past")
	case s.Timeout != nil && !s.Wait:
		return wrong("schedule", "--timeout needs --wait")
	case s.Timeout != nil && *s.Timeout <= 0:
		return wrong("schedule", "--timeout must be more than nothing, such as 30s")
	}
	return nil
}

// command returns what is asked for, if it is asked at this time.
func (s *scheduleCmd) command(now time.Time) (timer.ScheduleTimer, error) {
	if s.ID == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return timer.ScheduleTimer{}, fmt.Errorf("make an id: %w", err)
		}
		s.ID = id.String()
	}
	asked := timer.ScheduleTimer{
		Key:           timer.Key{TenantID: timer.TenantID(s.Tenant), ServiceCallID: timer.ServiceCallID(s.Call)},
		Version:       timer.Version{TimestampMS: now.UnixMilli(), CommandID: s.ID},
		CorrelationID: s.Correlation,
	}
	if s.At != nil {
		asked.DueAt = time.Time(*s.At)
	} else {
		asked.DueAt = timer.RoundUp(now.Add(time.Duration(*s.In)))
	}
	if err := asked.Validate(); err != nil {
		return timer.ScheduleTimer{}, refused("schedule", err)
	}
	return asked, nil
}

func (s *scheduleCmd) timeout() time.Duration {
	if s.Timeout == nil {
		return time.Duration(defaultTimeout)
	}
	return time.Duration(*s.Timeout)
}
