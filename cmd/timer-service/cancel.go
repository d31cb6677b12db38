package main

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

type cancelCmd struct {
	Tenant      string `arg:"" help:"Owner of the timer."`
	Call        string `arg:"" help:"Service call."`
	Correlation string `placeholder:"ID" help:"Correlation id of this request."`
}

// Help is printed below the summary.
func (cancelCmd) Help() string {
	return `Publishes a CancelTimer. A timer that fired stays as it is; a key without a timer
is marked, so that an older ScheduleTimer on its way has no effect.

Examples:

    timer-service cancel acme order-1`
}

// Run publishes the command.
func (c *cancelCmd) Run(ctx context.Context, e *env) error {
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("make an id: %w", err)
	}
	asked := timer.CancelTimer{
		Key:           timer.Key{TenantID: timer.TenantID(c.Tenant), ServiceCallID: timer.ServiceCallID(c.Call)},
		Version:       timer.Version{TimestampMS: e.now().UnixMilli(), CommandID: id.String()},
		CorrelationID: c.Correlation,
	}
	if err := asked.Validate(); err != nil {
		return refused("cancel", err)
	}
	b, err := connect(ctx, e, "cancel")
	if err != nil {
		return err
	}
	defer b.close()
	cmd := command{
		id:      asked.CommandID,
		topic:   b.Routing().CommandsOf(asked.TenantID),
		body:    envelope.Cancel(asked),
		headers: envelope.CancelHeaders(asked),
	}
	if err := b.publish(cmd); err != nil {
		return err
	}
	e.out.print(publishedCancel(asked, cmd))
	return nil
}
