package main

// publishing are mutants of the way from the outbox to the broker.
var publishing = []mutant{
	{
		"I1", "an event is deleted before it is published",
		[]change{in("outbox", "pipeline.publish", first("for _, row := range rows { _ = p.table.Delete(p.settling, row.Place) }"))},
		forwarding,
	},
	{
		"I1", "an event that failed is deleted",
		[]change{in("outbox", "pipeline.note", swap("err == nil", "err == nil || !errors.Is(err, broker.ErrUnavailable) && !errors.Is(err, broker.ErrRefused)"))},
		forwarding,
	},
	{
		"I15", "an event that is refused is tried for ever",
		[]change{in("outbox", "pipeline.note", never("MaxAttempts"))},
		forwarding,
	},
	{
		"I3", "what is in flight is published again",
		[]change{in("outbox", "sender.read", swap("!inFlight", "(!inFlight || true)"))},
		forwarding,
	},
	{
		"I3", "what was settled while it was read is published again",
		[]change{in("outbox", "sender.read", swap("!settled", "(!settled || true)"))},
		forwarding,
	},
	{
		"I3", "a row that cannot be deleted at once stays, and is published again after a restart",
		[]change{in("outbox", "sender.remove", swap("s.settling.Err() != nil", "true"))},
		forwarding,
	},
	{
		"I17", "an event that fails stops all others, as if the broker were away",
		[]change{in("outbox", "pipeline.note", swap("errors.Is(err, broker.ErrUnavailable)", "err != nil"))},
		forwarding,
	},
	{
		"I17", "a destination that fails is retried without a pause",
		[]change{in("outbox", "deferral", instead("policy.After", "0*$"))},
		forwarding,
	},
	{
		"Stop", "a stop waits for a broker that hangs",
		[]change{in("outbox", "sender.run", instead("pause.Outlive", "context.WithCancel(context.WithoutCancel(ctx))"))},
		forwarding,
	},
}

// deliveries are mutants of the messages in flight between a broker and the handlers.
var deliveries = []mutant{
	{
		"I11", "a message that is nacked is acked",
		[]change{in("broker/inflight", "Window.hold", first("f.delivery.Ack(); return"))},
		inflight,
	},
	{
		"I1", "a message that waits when the intake ends is not returned",
		[]change{in("broker/inflight", "giveBack", first("return"))},
		inflight,
	},
	{
		"I15", "while the store is down commands fill the memory",
		[]change{in("broker/inflight", "Subscriptions.Open", instead("semaphore.NewWeighted", "semaphore.NewWeighted(1 << 40)"))},
		inflight,
	},
}
