package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/google/uuid"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/apiclient"
	"github.com/event-service-agent/timer-service/timer"
)

type scheduleCmd struct {
	Tenant      timer.TenantID      `arg:"" help:"Owner of the timer: a letter or digit, then up to 63 of A-Z a-z 0-9 _ -."`
	Call        timer.ServiceCallID `arg:"" optional:"" help:"Service call: 1 to 128 of A-Z a-z 0-9 _ . : -. Default a new UUIDv7."`
	In          *duration           `placeholder:"3s" xor:"when" help:"Due after this long: 3s, 90m, 7d. 0 is due at once."`
	At          admin.Moment        `placeholder:"TIME" xor:"when" help:"Due at this time: RFC 3339 with a zone, or how long from now. A time in the past is due at once."`
	ExpiresIn   *duration           `placeholder:"1h" xor:"expires" help:"Expires if it has not fired this long from now."`
	ExpiresAt   admin.Moment        `placeholder:"TIME" xor:"expires" help:"Expires if it has not fired at this time, as for --at."`
	Correlation string              `placeholder:"ID" help:"Correlation id, which the event will carry."`
	Data        string              `placeholder:"JSON" help:"A JSON value of at most 4 KiB, which the event will carry as it is."`
	Wait        bool                `help:"Wait until the command took effect, and print that."`
	UntilFired  bool                `help:"Wait until it fires, and print how late it was."`
	Timeout     timeout             `default:"30s" help:"How long to wait; with --until-fired after the due time."`
}

// Help is printed below the summary.
func (scheduleCmd) Help() string {
	return `Has a running service publish a ScheduleTimer. "published" means that the broker has
stored the command, not that the service has handled it. A timer that exists gets the new
due time. --wait waits until the command took effect, --until-fired until the timer fires.
The exit code is 1 if the timer has fired or expired, or, with one of the two, if the command
was refused or has no effect.
The verb publish schedules the timers of a file.

Examples:

    timer-service schedule acme --in 3s --expires-in 1h --until-fired
    timer-service schedule acme order-1 --at 2030-01-31T12:00:00+01:00 --data '{"attempt":3}'`
}

// Run asks the service to publish the command, and waits if the flags say so.
func (s *scheduleCmd) Run(ctx context.Context, e *env, c *apiclient.Client) error {
	// The service sets the time of the command by its own clock, and checks all values.
	body, err := json.Marshal(admin.TimerRequest{
		CorrelationID: s.Correlation, In: s.In.milliseconds(), DueAt: s.At.String(), ExpiresIn: s.ExpiresIn.milliseconds(), ExpiresAt: s.ExpiresAt.String(),
	})
	if err != nil {
		return err
	}
	if s.Data != "" { // it stays as it is: Marshal would compact it
		body = append(body[:len(body)-1], `,"data":`+s.Data+"}"...)
	}
	call := cmp.Or(s.Call, timer.ServiceCallID(uuid.Must(uuid.NewV7()).String()))
	p := newPublished(envelope.TypeScheduleTimer, s.Tenant, call)
	return p.publish(ctx, e, c, waitOptions{s.Wait || s.UntilFired, s.UntilFired, s.Timeout}, http.MethodPut, body)
}

// Validate refuses a command without a time, and data that are not JSON.
func (s *scheduleCmd) Validate() error {
	switch {
	case s.In == nil && s.At.IsZero():
		return errors.New("say when: --in 3s, or --at 2030-01-31T12:00:00Z")
	case s.Data != "": // it becomes a part of the request
		return envelope.ValidateData("--data", s.Data)
	}
	return nil
}
