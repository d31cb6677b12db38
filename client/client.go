package client

import (
	"context"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/option"
	"github.com/event-service-agent/timer-service/timer"
)

// Options tune a [Client]. The zero value is ready to use.
type Options struct {
	Clock timer.Clock                           // default time.Now
	Trace func(ctx context.Context) timer.Trace // the trace that commands of a context carry on; default that of its OpenTelemetry span
}

// A Client schedules and cancels timers. It is safe for concurrent use if its
// publisher is, and owns nothing that must be closed.
type Client struct {
	pub     message.Publisher
	routing broker.Routing
	opt     Options

	versions Versions
}

// New returns a Client that publishes to the commands topic of a routing. The UUID of
// a message is the id of its command: a broker that drops repeated ids should be given
// it (TrackMsgId of watermill-nats). [broker.Key] is the key of a message for a broker
// that has partitions.
func New(pub message.Publisher, routing broker.Routing, opt Options) *Client {
	option.Require("client.New", "publisher", pub)
	if routing.Commands == "" {
		panic("client.New needs the name of the commands topic")
	}
	if opt.Clock == nil {
		opt.Clock = timer.ClockFunc(time.Now) //nolint:forbidigo // the default of a clock
	}
	if opt.Trace == nil {
		opt.Trace = TraceOf
	}
	return &Client{pub: pub, routing: routing, opt: opt}
}

// Schedule asks for a timer, or moves the one that its key has, and returns the version
// of the command. After an error of the publisher the broker may have the command: then
// the version is returned, too, and the same timer with it may be sent again, and is
// taken once. An error that wraps [timer.ErrInvalid] names the field and the fix, and nothing
// was sent.
func (c *Client) Schedule(ctx context.Context, t Timer) (timer.Version, error) {
	command, err := c.command(ctx, t, c.opt.Clock.Now())
	if err != nil {
		return timer.Version{}, err
	}
	return c.send(ctx, command.TenantID, command.Version, command)
}

// Cancel cancels the timer of a key, if it has not fired, and returns the version of
// the command, as [Client.Schedule] does. It is no error if there is no such timer.
func (c *Client) Cancel(ctx context.Context, key timer.Key) (timer.Version, error) {
	return c.CancelTimer(ctx, timer.CancelTimer{Key: key})
}

// CancelTimer cancels as [Client.Cancel] does, with the correlation id, the version and the
// trace of the command, if it has them.
func (c *Client) CancelTimer(ctx context.Context, command timer.CancelTimer) (timer.Version, error) {
	now := c.opt.Clock.Now()
	command.Version = c.versions.Complete(command.Version, now)
	if command.Trace == (timer.Trace{}) {
		command.Trace = c.opt.Trace(ctx)
	}
	if err := timer.ValidateTimestamp(command.TimestampMS, now, maxAhead); err != nil {
		return timer.Version{}, err
	}
	return c.send(ctx, command.TenantID, command.Version, command)
}

// CancelMany cancels many timers of a tenant that have not fired: by a prefix of their
// service calls, by their correlation id, or by a list of up to 500 service calls. It
// cancels the timers that exist when the service handles it. It returns as [Client.Schedule] does.
func (c *Client) CancelMany(ctx context.Context, tenant timer.TenantID, of timer.Selection) (timer.Version, error) {
	version := c.versions.Complete(timer.Version{}, c.opt.Clock.Now())
	return c.send(ctx, tenant, version, timer.CancelTimers{TenantID: tenant, Version: version, Of: of, Trace: c.opt.Trace(ctx)})
}

// RescheduleMany moves many timers of a tenant that wait to a due time: the timers that
// [Client.CancelMany] would cancel. Their data, expiry and correlation id stay; a timer that
// would be due after it expires stays as it is. It returns as [Client.Schedule] does.
func (c *Client) RescheduleMany(ctx context.Context, tenant timer.TenantID, of timer.Selection, dueAt time.Time) (timer.Version, error) {
	version := c.versions.Complete(timer.Version{}, c.opt.Clock.Now())
	return c.send(ctx, tenant, version, timer.RescheduleTimers{TenantID: tenant, Version: version, Of: of, DueAt: dueAt, Trace: c.opt.Trace(ctx)})
}

// command returns the command of a timer.
func (c *Client) command(ctx context.Context, t Timer, now time.Time) (timer.ScheduleTimer, error) {
	t.Version = c.versions.Complete(t.Version, now)
	command, err := t.Command(now)
	if err != nil {
		return command, err
	}
	command.Trace = c.opt.Trace(ctx)
	return command, timer.ValidateTimestamp(command.TimestampMS, now, maxAhead)
}

// maxAhead is how far ahead of its clock the service takes a command, unless configured
// otherwise.
const maxAhead = 24 * time.Hour

// send publishes a command with a version, and returns the version unless the command is invalid.
func (c *Client) send(ctx context.Context, tenant timer.TenantID, version timer.Version, command Command) (timer.Version, error) {
	msg, err := Message(command)
	if err != nil {
		return timer.Version{}, err
	}
	return version, c.publish(ctx, tenant, msg)
}

// publish publishes a message of a tenant, with the context for publishers that look at
// it.
func (c *Client) publish(ctx context.Context, tenant timer.TenantID, msg *message.Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	msg.SetContext(ctx)
	if err := c.pub.Publish(c.routing.CommandsOf(tenant), msg); err != nil {
		return fmt.Errorf("publish %s %s of %s: %w", msg.Metadata[envelope.HeaderType], msg.UUID, tenant, err)
	}
	return nil
}
