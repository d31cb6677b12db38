package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/apiclient"
	"github.com/event-service-agent/timer-service/timer"
)

type cancelCmd struct {
	Tenant      string    `arg:"" help:"Owner of the timer."`
	Call        string    `arg:"" help:"Service call."`
	Correlation string    `placeholder:"ID" help:"Correlation id of this request."`
	Wait        bool      `help:"Wait until the command was handled; needs the database, or --server."`
	Timeout     *duration `placeholder:"30s" help:"How long to wait."`
}

// Help is printed below the summary.
func (cancelCmd) Help() string {
	return `Publishes a CancelTimer. A timer that has fired is not changed. If there is no
timer, the service keeps a tombstone, so that an older ScheduleTimer that arrives
later has no effect.

If the database can be read here, the state of the timer before is printed. With
--wait it waits until the command was handled. The exit code is 1 if the timer is
not canceled then. With --server the service publishes the command.

Examples:

    timer-service cancel acme order-1
    timer-service cancel acme order-1 --wait`
}

// Run publishes the command, and waits for its result if --wait is given.
func (c *cancelCmd) Run(ctx context.Context, e *env) error {
	cancel := timer.CancelTimer{
		Key:           timer.Key{TenantID: timer.TenantID(c.Tenant), ServiceCallID: timer.ServiceCallID(c.Call)},
		Version:       client.NewVersion(e.now()),
		CorrelationID: c.Correlation,
	}
	if err := checkTimeout("cancel", c.Wait, c.Timeout); err != nil {
		return err
	}
	if err := cancel.Validate(); err != nil {
		return refused("cancel", err)
	}
	switch remote, err := e.named(); {
	case err != nil:
		return err
	case remote != nil:
		defer remote.Close()
		return c.runRemote(ctx, e, remote, cancel)
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
	m, done, err := b.command(ctx, cancel, cancel.Version)
	if err != nil {
		return err
	}
	done.of(was, read)
	return answers.report(ctx, e, m, done, c.Timeout, judgeCancel)
}

// runRemote lets a service publish the command.
func (c *cancelCmd) runRemote(ctx context.Context, e *env, remote *apiclient.Client, cancel timer.CancelTimer) error {
	was, read := before(ctx, e, cancel.Key)
	published, err := remote.Cancel(ctx, cancel.Key, cancel.CorrelationID)
	if err != nil {
		return fmt.Errorf("%s: %w", cancel.Key, err)
	}
	done := newRemote(envelope.TypeCancelTimer, published)
	done.of(was, read)
	var a *answers
	if c.Wait {
		a = new(answers)
	}
	return a.report(ctx, e, nil, done, c.Timeout, judgeCancel)
}

// of adds to a CancelTimer what its timer was before, if that was read.
func (p *published) of(was *shownTimer, read bool) {
	if p.Before = was; read {
		p.was = was.was()
	}
}
