package admin

import (
	"context"
	"errors"
	"log/slog"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// Embedded returns the options of a [Server] that a program with an app inside mounts:
// health, the JSON API and the dashboard of the app, on a store and a broker. Without a
// broker (nil) commands of the API and of pages are applied by [app.Timers], at once.
// Nothing has to run: health is checked when a
// request asks for it. The program sets Prefix, as it mounts the server, and Token or
// middleware of its own. Without them everyone who reaches the server may do everything:
//
//	opt := admin.Embedded(a, store, broker, log)
//	opt.Prefix, opt.Token = "/timers", token
//	mux.Handle("/timers/", admin.New(log, opt))
//
// The program may add History, Events, Metrics and Quotas.
func Embedded(a *app.App, s app.Store, b broker.Broker, log *slog.Logger) Options {
	monitor := NewMonitor(a.Checks, log)
	monitor.asked = true
	opt := Options{Monitor: monitor, Timers: a.Reader(), Operator: s.Operator(), Service: a, Broker: b}
	if b == nil {
		opt.Apply = func(ctx context.Context, command *message.Message) error { return apply(ctx, a.Timers(), command) }
	}
	return opt
}

// apply applies a command to the timers of a program. A cancellation follows the version of its
// timer, as each that people ask for.
func apply(ctx context.Context, timers *app.Timers, command *message.Message) error {
	decoded, err := envelope.DecodeWith(command.Payload, command.Metadata.Get)
	if err != nil {
		return err
	}
	ctx = client.WithTrace(ctx, envelope.TraceFrom(command.Metadata.Get))
	switch c := decoded.Payload.(type) {
	case timer.ScheduleTimer:
		return timers.Schedule(ctx, scheduled(c))
	case timer.ScheduleTimers:
		var all []client.Timer
		for _, s := range c.Commands {
			all = append(all, scheduled(s))
		}
		return timers.Schedule(ctx, all...)
	case timer.CancelTimer:
		return timers.Cancel(ctx, c.Key)
	case timer.CancelTimers:
		_, err := timers.CancelWhere(ctx, c.TenantID, c.Of)
		return err
	case timer.RescheduleTimers:
		_, err := timers.RescheduleWhere(ctx, c.TenantID, c.Of, timer.Move{To: c.DueAt})
		return err
	}
	return errors.ErrUnsupported // no request makes another command
}

// scheduled returns the timer that a command schedules.
func scheduled(c timer.ScheduleTimer) client.Timer {
	return client.Timer{
		TenantID: c.TenantID, ServiceCallID: c.ServiceCallID, DueAt: c.DueAt, ExpiresAt: c.ExpiresAt,
		CorrelationID: c.CorrelationID, Data: []byte(c.Data), Version: c.Version,
	}
}
