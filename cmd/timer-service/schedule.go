package main

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

type scheduleCmd struct {
	Tenant      string    `arg:"" optional:"" help:"Owner of the timer: a letter or digit, then up to 63 of A-Z a-z 0-9 _ -."`
	Call        string    `arg:"" optional:"" help:"Service call: 1 to 128 of A-Z a-z 0-9 _ . : -. Default a new UUIDv7."`
	In          *duration `placeholder:"3s" help:"Due after this long: 3s, 90m, 7d. 0 is due at once."`
	At          *instant  `placeholder:"TIME" help:"Due at this time: RFC 3339 with a zone. A time in the past is due at once."`
	Correlation string    `placeholder:"ID" help:"Correlation id, which the event will carry."`
	Data        *string   `placeholder:"JSON" help:"A JSON value of at most 4 KiB, which the event will carry as it is."`
	ID          string    `placeholder:"ID" help:"Id of the command; default new. A broker drops an id that it has had recently."`
	File        string    `placeholder:"FILE" help:"Schedule the timers of a file, one a line: tenant,call,due or JSON with tenantId, serviceCallId, dueAt and optional data; - is stdin."`
	Wait        bool      `help:"Wait for the event, and print how late it was."`
	Timeout     *duration `placeholder:"30s" help:"How long after the due time to wait."`
}

// Help is printed below the summary.
func (scheduleCmd) Help() string {
	return `Publishes a ScheduleTimer. "published" means that the broker has stored the command,
not that the service has handled it. A timer that exists gets the new due time; one
that has fired is not changed. --wait waits for the event. It ends earlier, with
exit code 1, if a dead letter or the database shows that there will be none.

Examples:

    timer-service schedule acme --in 3s --wait
    timer-service schedule acme order-1 --at 2030-01-31T12:00:00+01:00
    timer-service schedule acme order-1 --in 2h --data '{"attempt":3}' -o json
    timer-service schedule --file campaign.csv

With --file a message has up to 500 timers, accepted or refused as a whole. A wrong
line is named.`
}

// Run publishes the command, and waits for its result if --wait is given.
func (s *scheduleCmd) Run(ctx context.Context, e *env) error {
	if err := s.check(); err != nil {
		return err
	}
	if s.File != "" {
		return s.runFile(ctx, e)
	}
	if _, err := s.command(e.now()); err != nil {
		return err
	}
	c, err := connect(ctx, e, "schedule")
	if err != nil {
		return err
	}
	defer c.close()
	var answers *answers
	if s.Wait {
		if answers, err = c.answersOf(ctx, timer.TenantID(s.Tenant)); err != nil {
			return err
		}
	}

	schedule, err := s.command(e.now()) // connecting took time
	if err != nil {
		return err
	}
	m := newMessage(schedule.CommandID, envelope.Schedule(schedule), envelope.ScheduleHeaders(schedule))
	done, err := c.command(ctx, m, schedule.Version)
	if err != nil {
		return err
	}
	done.DueAt = stamp(schedule.DueAt)
	return answers.report(ctx, e, m, done, s.Timeout, judgeSchedule)
}

// check returns the mistakes that need no clock.
func (s *scheduleCmd) check() error {
	switch {
	case s.File != "" && (s.Tenant != "" || s.In != nil || s.At != nil || s.Wait || s.Correlation != "" || s.Data != nil || s.ID != ""):
		return wrong("schedule", "--file excludes the arguments and flags of one timer")
	case s.File != "":
		return nil
	case s.Tenant == "":
		return wrong("schedule", "name the <tenant>, or a --file")
	case s.In == nil && s.At == nil:
		return wrong("schedule", "say when: --in 3s, or --at 2030-01-31T12:00:00Z")
	case s.In != nil && s.At != nil:
		return wrong("schedule", "--in and --at exclude each other; give one")
	case s.In != nil && *s.In < 0:
		return wrong("schedule", "--in must not be negative; 0 is due at once, and --at takes a time in the past")
	case s.Data != nil && *s.Data == "":
		return wrong("schedule", "--data is empty; give a JSON value, or leave it out")
	}
	return checkTimeout("schedule", s.Wait, s.Timeout)
}

// command returns the command of the flags, as of now.
func (s *scheduleCmd) command(now time.Time) (timer.ScheduleTimer, error) {
	if s.ID == "" {
		s.ID = uuid.Must(uuid.NewV7()).String()
	}
	if s.Call == "" {
		s.Call = uuid.Must(uuid.NewV7()).String()
	}
	c := timer.ScheduleTimer{
		Key:           timer.Key{TenantID: timer.TenantID(s.Tenant), ServiceCallID: timer.ServiceCallID(s.Call)},
		Version:       timer.Version{TimestampMS: now.UnixMilli(), CommandID: s.ID},
		CorrelationID: s.Correlation,
	}
	if s.At != nil {
		c.DueAt = time.Time(*s.At)
	} else {
		c.DueAt = timer.RoundUp(now.Add(time.Duration(*s.In)))
	}
	if s.Data != nil {
		c.Data = *s.Data
		if err := envelope.ValidateData("--data", c.Data); err != nil {
			return timer.ScheduleTimer{}, refused("schedule", err)
		}
	}
	if err := c.Validate(); err != nil {
		return timer.ScheduleTimer{}, refused("schedule", err)
	}
	return c, nil
}
