package main

// Test runs of the way in.
var (
	intake   = test{"./handlers", ".", ""}
	bounds   = test{"./app", "^TestATenantAtItsBound$|^TestHostileTenantsFillTheInbox|^TestMessagesWaitNoLonger", ""}
	moved    = test{"./app", "^TestAScheduleThatWaitsIsMoved$|^TestAMoveIsAppliedOnce$", ""}
	selected = test{"./app", "^TestTheHostCancels|^TestAnotherInstanceCancels|^TestASelectionIsAppliedOnce", ""}
	limiting = test{"./quota", ".", ""}
)

// intakes are mutants of the way from the broker to the store.
var intakes = []mutant{
	{
		"I11", "a command is acked before its commit",
		[]change{in("handlers", "Handlers.apply", first("d.msg.Ack()"))},
		intake,
	},
	{
		"I1", "an outage of the store makes dead letters of valid commands",
		[]change{in("handlers", "isInvalid", instead("errors.Is", "(err != nil || $)"))},
		intake,
	},
	{
		"I1", "an invalid command is acked though its dead letter was not published",
		[]change{in("handlers", "deadLetters.publish", swap("err != nil", "false"))},
		intake,
	},
	{
		"I1", "the broker drops a dead letter as a duplicate of its original",
		[]change{in("handlers", "deadLetters.*", instead("message.NewMessage", "message.NewMessage(original.UUID, original.Payload)"))},
		intake,
	},
	{
		"I17", "a tenant's dead letters have no limit",
		[]change{in("handlers", "letterLimiter.ask", first("return KeptWhole"))},
		test{"./handlers", "^TestDeadLettersOfATenantHaveALimit$", ""},
	},
	{
		"I8", "a tenant fills the dead letters of another one",
		[]change{in("handlers", "deadLetters.tenantOf", never("named"))},
		intake,
	},
	{
		"I8", "a tenant sends commands for another one on its own topic",
		[]change{in("handlers", "Handlers.*", never("named"))},
		intake,
	},
	{
		"I5", "a header of a message replaces the correlation in its body",
		[]change{in("envelope", "decoder.*", swap(`m.CorrelationID == ""`, "true"))},
		intake,
	},
	{
		"I13", "an invalid command opens the circuit breaker",
		[]change{in("handlers", "Handlers.breakCircuit", swap("isInvalid(err)", "false"))},
		intake,
	},
	{
		"I15", "the intake goes on while the store is down",
		[]change{in("handlers", "breaker.acquire", first("return false, true"))},
		intake,
	},
	{
		"I15", "the intake goes on with a database that is corrupt",
		[]change{in("handlers", "Handlers.endIfFatal", never("timer.ErrFatal"))},
		intake,
	},
	{
		"I17", "a command that makes a shared commit fail is tried with the others only",
		[]change{in("handlers", "Handlers.retry", never("MaxTries"))},
		intake,
	},
	{
		"Stop", "a stop breaks transactions that are running",
		[]change{in("handlers", "Handlers.begin", swap("h.working", "h.stopping"))},
		intake,
	},
	{
		"I12", "a command does not wake the poller",
		[]change{in("handlers", "Handlers.scheduled", skip("Scheduled"))},
		intake,
	},
	{
		"I1", "a command that exceeds a quota is acked, and does not wait",
		[]change{in("handlers", "Handlers.wait", first("return nil"))},
		intake,
	},
	{
		"I14", "a tenant schedules faster than it may",
		[]change{in("quota", "Limiter.take", never("needed"))},
		limiting,
	},
	{
		"I17", "the inbox takes any number of messages of a tenant",
		[]change{in("handlers", "inboxState.full", swap("t.messages >= s.limit.Messages", "false"))},
		bounds,
	},
	{
		"I17", "the inbox takes any size of messages of a tenant",
		[]change{in("handlers", "inboxState.full", swap("t.bytes + size > s.limit.Bytes", "false"))},
		bounds,
	},
	{
		"I20", "the inbox takes any size of messages of all tenants",
		[]change{in("handlers", "inboxState.full", swap("s.bytes + size > s.limit.TotalBytes", "false"))},
		bounds,
	},
	{
		"I20", "a message waits for ever",
		[]change{in("handlers", "Handlers.waitedTooLong", first("return false"))},
		bounds,
	},
	{
		"I17", "nacked messages of a tenant at its bound fill what is in flight",
		[]change{in("handlers", "inboxState.mayNack", first("return true"))},
		test{"./app", "^TestATenantAtItsBoundFillsNothingOfOthers$", ""},
	},
	{
		"I6", "a host's cancellation does not reach what waits",
		[]change{in("app", "Joined.where", swap("c.IsLasting()", "true"))},
		selected,
	},
	{
		"I6", "what another instance cancels is scheduled for a second",
		[]change{in("handlers", "selections.of", instead("s.inbox.AppliedSelections", "func() ([]timer.InboxMessage, error) { if isKnown { return nil, nil }; return $ }()"))},
		selected,
	},
	{
		"I6", "a cancellation is not seen behind the commit of a command that waited",
		[]change{in("handlers", "Handlers.schedule", instead("h.selectWaiting", "func() (_, _, _ []timer.ScheduleTimer, err error) { return }()"))},
		test{"./handlers", "^TestACommandThatWaitedIsCanceled", ""},
	},
	{
		"I6", "a move undoes what changed after the timer was read",
		[]change{in("timer", "Status.Move", swap("s != Status{Scheduled, c.Moves}", "false"))},
		test{"./store/sqlite", "^TestOwnFile$/^Timers_that_change_while_they_are_moved", ""},
	},
	{
		"I6", "what was moved while it waited fires at the time that is past",
		[]change{in("handlers", "Handlers.selectWaiting", swap("after.DueAt", "c.DueAt"))},
		test{"./handlers", "^TestACommandThatWaitedIsScheduledAsItWasMoved$", ""},
	},
	{
		"I6", "a move that is delivered again moves what came after it",
		[]change{in("handlers", "Handlers.applyAndNote", swap("sameMessage(&a.message, &m)", "false"))},
		moved,
	},
}
