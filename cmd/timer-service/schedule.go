package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

type scheduleCmd struct {
	Tenant      timer.TenantID      `arg:"" optional:"" help:"Owner of the timer: a letter or digit, then up to 63 of A-Z a-z 0-9 _ -."`
	Call        timer.ServiceCallID `arg:"" optional:"" help:"Service call: 1 to 128 of A-Z a-z 0-9 _ . : -. Default a new UUIDv7."`
	In          *duration           `placeholder:"3s" help:"Due after this long: 3s, 90m, 7d. 0 is due at once."`
	At          *instant            `placeholder:"TIME" help:"Due at this time: RFC 3339 with a zone. A time in the past is due at once."`
	ExpiresIn   *duration           `placeholder:"1h" help:"Expires if it has not fired this long from now."`
	ExpiresAt   *instant            `placeholder:"TIME" help:"Expires if it has not fired at this time."`
	Correlation correlation         `placeholder:"ID" help:"Correlation id, which the event will carry."`
	Data        *string             `placeholder:"JSON" help:"A JSON value of at most 4 KiB, which the event will carry as it is."`
	File        string              `placeholder:"FILE" help:"Schedule the timers of a file, or of stdin (-): tenant,call,due or JSON a line."`
	waitFlags
}

// Help is printed below the summary.
func (scheduleCmd) Help() string {
	return `Has a running service publish a ScheduleTimer. "published" means that the broker has
stored the command, not that the service has handled it. A timer that exists gets the new
due time. --wait waits until it fires, and prints how late it was. The exit code is 1 if the
timer has fired or expired, or, with --wait, if the command was refused or has no effect.
With --file it reports lines that are refused by number, and publishes the others.

Examples:

    timer-service schedule acme --in 3s --expires-in 1h --wait
    timer-service schedule acme order-1 --at 2030-01-31T12:00:00+01:00 --data '{"attempt":3}'
    timer-service schedule --file campaign.csv`
}

// Run asks the service to publish the command, and waits for its result if --wait is given.
func (s *scheduleCmd) Run(ctx context.Context, e *env) error {
	if s.File != "" {
		return s.runFile(ctx, e)
	}
	c, err := e.service(ctx)
	if err != nil {
		return err
	}
	request, err := s.request()
	if err != nil {
		return err
	}
	call := cmp.Or(s.Call, timer.ServiceCallID(uuid.Must(uuid.NewV7()).String()))
	err = s.publish(ctx, e, c, newPublished(envelope.TypeScheduleTimer, s.Tenant, call), http.MethodPut, "", request)
	if errors.Is(err, timer.ErrInvalid) {
		return refused("schedule", err)
	}
	return err
}

// request returns the body of the request. The service sets the time of the command by its
// own clock, and checks all values.
func (s *scheduleCmd) request() ([]byte, error) {
	r := admin.TimerRequest{CorrelationID: string(s.Correlation)}
	if s.In != nil {
		r.In = s.In.milliseconds()
	} else {
		r.DueAt = envelope.FormatTime(timer.RoundUp(time.Time(*s.At)))
	}
	if s.ExpiresIn != nil {
		r.ExpiresIn = s.ExpiresIn.milliseconds()
	} else if s.ExpiresAt != nil {
		r.ExpiresAt = envelope.FormatTime(timer.RoundUp(time.Time(*s.ExpiresAt)))
	}
	body, err := json.Marshal(r)
	// Data stays as it is: Marshal would compact it.
	if err == nil && s.Data != nil {
		body = append(body[:len(body)-1], `,"data":`+*s.Data+"}"...)
	}
	return body, err
}

// Validate refuses flags that are missing or exclude each other.
func (s *scheduleCmd) Validate() error {
	switch {
	case s.File != "" && (s.Tenant != "" || s.In != nil || s.At != nil || s.ExpiresIn != nil || s.ExpiresAt != nil || s.Wait || s.Correlation != "" || s.Data != nil):
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
	case s.ExpiresIn != nil && s.ExpiresAt != nil:
		return wrong("schedule", "--expires-in and --expires-at exclude each other; give one")
	case s.Data != nil && *s.Data == "":
		return wrong("schedule", "--data is empty; give a JSON value, or leave it out")
	case s.Data != nil: // it becomes a part of the request
		if err := envelope.ValidateData("--data", *s.Data); err != nil {
			return refused("schedule", err)
		}
	}
	return s.waitFlags.Validate()
}
