package main

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

type cancelCmd struct {
	Tenant      string    `arg:"" help:"Owner of the timer."`
	Call        string    `arg:"" help:"Service call."`
	Correlation string    `placeholder:"ID" help:"Correlation id of this request."`
	Wait        bool      `help:"Wait until the command was handled; needs the database."`
	Timeout     *duration `placeholder:"30s" help:"How long to wait."`
}

// Help is printed below the summary.
func (cancelCmd) Help() string {
	return `Publishes a CancelTimer. A timer that has fired is not changed. If there is no
timer, the service keeps a tombstone, so that an older ScheduleTimer that arrives
later has no effect.

If the database can be read here, the state of the timer before is printed. With
--wait it waits until the command was handled. The exit code is 1 if the timer is
not canceled then.

Examples:

    timer-service cancel acme order-1
    timer-service cancel acme order-1 --wait`
}

// Run publishes the command, and waits for its result if --wait is given.
func (c *cancelCmd) Run(ctx context.Context, e *env) error {
	cancel := timer.CancelTimer{
		Key:           timer.Key{TenantID: timer.TenantID(c.Tenant), ServiceCallID: timer.ServiceCallID(c.Call)},
		Version:       timer.Version{TimestampMS: e.now().UnixMilli(), CommandID: uuid.Must(uuid.NewV7()).String()},
		CorrelationID: c.Correlation,
	}
	if err := checkTimeout("cancel", c.Wait, c.Timeout); err != nil {
		return err
	}
	if err := cancel.Validate(); err != nil {
		return refused("cancel", err)
	}
	b, err := connect(ctx, e, "cancel")
	if err != nil {
		return err
	}
	defer b.close()
	was, read := before(ctx, e, cancel.Key)
	if c.Wait && !read {
		return errors.New("cancel --wait: nothing was published: the database can't be read here, so the result would not be known")
	}
	var answers *answers
	if c.Wait {
		if answers, err = b.answersOf(ctx, cancel.TenantID); err != nil {
			return err
		}
	}
	m := newMessage(cancel.CommandID, envelope.Cancel(cancel), envelope.CancelHeaders(cancel))
	done, err := b.command(ctx, m, cancel.Version)
	if err != nil {
		return err
	}
	done.Before = was
	if read {
		done.was = was.was()
	}
	return answers.report(ctx, e, m, done, c.Timeout, judgeCancel)
}
