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
	breaks("I11", "a command is acked before its commit", intake,
		in("handlers", "Handlers.apply", first("d.msg.Ack()"))),
	breaks("I1", "an outage of the store makes dead letters of valid commands", intake,
		in("handlers", "isInvalid", instead("errors.Is", "(err != nil || $)"))),
	breaks("I1", "an invalid command is acked though its dead letter was not published", intake,
		in("handlers", "deadLetters.publish", swap("err != nil", "false"))),
	breaks("I1", "the broker drops a dead letter as a duplicate of its original", intake,
		in("handlers", "deadLetters.*", instead("message.NewMessage", "message.NewMessage(original.UUID, original.Payload)"))),
	breaks("I17", "a tenant's dead letters have no limit", test{"./handlers", "^TestDeadLettersOfATenantHaveALimit$", ""},
		in("handlers", "letterLimiter.ask", first("return KeptWhole"))),
	breaks("I8", "a tenant fills the dead letters of another one", intake,
		in("handlers", "deadLetters.tenantOf", never("named"))),
	breaks("I8", "a tenant sends commands for another one on its own topic", intake,
		in("handlers", "Handlers.*", never("named"))),
	breaks("I5", "a header of a message replaces the correlation in its body", intake,
		in("envelope", "decoder.*", swap(`m.CorrelationID == ""`, "true"))),
	breaks("I13", "an invalid command opens the circuit breaker", intake,
		in("handlers", "Handlers.breakCircuit", swap("isInvalid(err)", "false"))),
	breaks("I15", "the intake goes on while the store is down", intake,
		in("handlers", "breaker.acquire", first("return false, true"))),
	breaks("I15", "the intake goes on with a database that is corrupt", intake,
		in("handlers", "Handlers.endIfFatal", never("timer.ErrFatal"))),
	breaks("I17", "a command that makes a shared commit fail is tried with the others only", intake,
		in("handlers", "Handlers.retry", never("MaxTries"))),
	breaks("Stop", "a stop breaks transactions that are running", intake,
		in("handlers", "Handlers.begin", swap("h.working", "h.stopping"))),
	breaks("I12", "a command does not wake the poller", intake,
		in("handlers", "Handlers.scheduled", skip("Scheduled"))),
	breaks("I1", "a command that exceeds a quota is acked, and does not wait", intake,
		in("handlers", "Handlers.wait", first("return nil"))),
	breaks("I14", "a tenant schedules faster than it may", limiting,
		in("quota", "Limiter.take", never("needed"))),
	breaks("I17", "the inbox takes any number of messages of a tenant", bounds,
		in("handlers", "inboxState.full", swap("t.messages >= s.limit.Messages", "false"))),
	breaks("I17", "the inbox takes any size of messages of a tenant", bounds,
		in("handlers", "inboxState.full", swap("t.bytes + size > s.limit.Bytes", "false"))),
	breaks("I20", "the inbox takes any size of messages of all tenants", bounds,
		in("handlers", "inboxState.full", swap("s.bytes + size > s.limit.TotalBytes", "false"))),
	breaks("I20", "a message waits for ever", bounds,
		in("handlers", "Handlers.waitedTooLong", first("return false"))),
	breaks("I17", "nacked messages of a tenant at its bound fill what is in flight", test{"./app", "^TestATenantAtItsBoundFillsNothingOfOthers$", ""},
		in("handlers", "inboxState.mayNack", first("return true"))),
	breaks("I6", "a host's cancellation does not reach what waits", selected,
		in("app", "Joined.where", swap("c.IsLasting()", "true"))),
	breaks("I6", "what another instance cancels is scheduled for a second", selected,
		in("handlers", "selections.of", instead("s.inbox.AppliedSelections", "func() ([]timer.InboxMessage, error) { if isKnown { return nil, nil }; return $ }()"))),
	breaks("I6", "a cancellation is not seen behind the commit of a command that waited", test{"./handlers", "^TestACommandThatWaitedIsCanceled", ""},
		in("handlers", "Handlers.schedule", instead("h.selectWaiting", "func() (_, _, _ []timer.ScheduleTimer, err error) { return }()"))),
	breaks("I6", "a move undoes what changed after the timer was read", test{"./store/sqlite", "^TestOwnFile$/^Timers_that_change_while_they_are_moved", ""},
		in("timer", "Status.Move", swap("s != Status{Scheduled, c.Moves}", "false"))),
	breaks("I6", "what was moved while it waited fires at the time that is past", test{"./handlers", "^TestACommandThatWaitedIsScheduledAsItWasMoved$", ""},
		in("handlers", "Handlers.selectWaiting", swap("after.DueAt", "c.DueAt"))),
	breaks("I6", "a move that is delivered again moves what came after it", moved,
		in("handlers", "Handlers.applyAndNote", swap("sameMessage(&a.message, &m)", "false"))),
}
