// Package client is for programs that use timers: it schedules and cancels them, and
// reacts when their time has come. It works over any Watermill publisher and
// subscriber, and brings neither a driver nor a database.
//
//	c := client.New(publisher, broker.NATSRouting(), client.Options{})
//
//	_, err := c.Schedule(ctx, client.Timer{TenantID: "acme", ServiceCallID: "order-1", After: 3 * time.Hour})
//	_, err = c.Cancel(ctx, timer.Key{TenantID: "acme", ServiceCallID: "order-1"})
//
//	client.OnDue(router, subscriber, func(ctx context.Context, e timer.DueTimeReached) error {
//		return run(ctx, e.ServiceCallID)
//	}, client.OnDueOptions{Topic: "svc.acme.serviceCall"})
//
// A timer belongs to a tenant and to one service call of that tenant. To move it,
// schedule it again. When it fires, the service publishes one [timer.DueTimeReached].
// Topics are named by a [broker.Routing], which has those of each broker.
//
// # Promises
//
//   - An error that wraps [timer.ErrInvalid] names the field of a command and the fix, and
//     nothing was sent. After any other error the broker may have it.
//   - A nil error means that the publisher returned nil. If it waits for the ack of a durable
//     broker, the command is not lost. Whether the service accepts it (tenants have quotas) is
//     known later: see receipts and dead letters in docs/messages.md.
//   - Commands of one Client take effect in the order in which they were made, those of
//     one millisecond too. Of two processes the one with the later clock wins.
//   - An event may come more than once, around a crash or an error of the broker.
//     [OnDue] hands it over again only if that failed before, as far as it remembers.
//   - An event is acked after its handler returned nil.
//
// # Trace
//
// A command carries on the trace of its context, and so does the context of a handler
// with the trace of its event. With OpenTelemetry there is nothing to do; others set
// [Options.Trace].
package client
