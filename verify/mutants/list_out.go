package main

// publishing are mutants of the way from the outbox to the broker.
var publishing = []mutant{
	breaks("I1", "an event is deleted before it is published", forwarding,
		in("outbox", "pipeline.publish", first("for _, row := range rows { _ = p.table.Delete(p.settling, row.Place) }"))),
	breaks("I1", "an event that failed is deleted", forwarding,
		in("outbox", "pipeline.note", swap("err == nil", "err == nil || !errors.Is(err, broker.ErrUnavailable) && !errors.Is(err, broker.ErrRefused)"))),
	breaks("I15", "an event that is refused is tried for ever", forwarding,
		in("outbox", "pipeline.note", never("MaxAttempts"))),
	breaks("I3", "what is in flight is published again", forwarding,
		in("outbox", "sender.read", swap("!inFlight", "(!inFlight || true)"))),
	breaks("I3", "what was settled while it was read is published again", forwarding,
		in("outbox", "sender.read", swap("!settled", "(!settled || true)"))),
	breaks("I3", "a row that cannot be deleted at once stays, and is published again after a restart", forwarding,
		in("outbox", "sender.remove", swap("s.settling.Err() != nil", "true"))),
	breaks("I17", "an event that fails stops all others, as if the broker were away", forwarding,
		in("outbox", "pipeline.note", swap("errors.Is(err, broker.ErrUnavailable)", "err != nil"))),
	breaks("I17", "a destination that fails is retried without a pause", forwarding,
		in("outbox", "deferral", instead("policy.After", "0*$"))),
	breaks("Stop", "a stop waits for a broker that hangs", forwarding,
		in("outbox", "sender.run", instead("pause.Outlive", "context.WithCancel(context.WithoutCancel(ctx))"))),
}

// deliveries are mutants of the messages in flight between a broker and the handlers.
var deliveries = []mutant{
	breaks("I11", "a message that is nacked is acked", inflight,
		in("broker/inflight", "Window.hold", first("f.delivery.Ack(); return"))),
	breaks("I1", "a message that waits when the intake ends is not returned", inflight,
		in("broker/inflight", "giveBack", first("return"))),
	breaks("I15", "while the store is down commands fill the memory", inflight,
		in("broker/inflight", "Subscriptions.Open", instead("semaphore.NewWeighted", "semaphore.NewWeighted(1 << 40)"))),
}
