package main

// timers are mutants of what a command does to a timer.
var timers = []mutant{
	{
		"I6", "an older ScheduleTimer that arrives late replaces the newer one",
		[]change{
			in("timer", "Status.unchanged", never("v.Compare")),
		},
		invariants,
	},
	{
		"I6", "an older CancelTimer that arrives late cancels a newer timer",
		[]change{in("timer", "Status.Cancel", first("if s.State == Scheduled && v.Compare(s.Version) < 0 { return Status{State: Canceled, Version: v}, DidCancel }"))},
		invariants,
	},
	{
		"I6", "a CancelTimer for a canceled timer leaves the older version",
		[]change{in("timer", "Status.Cancel", first("if s.State == Canceled { return s, WasCanceled }"))},
		invariants,
	},
	{
		"I7", "a newer ScheduleTimer fires a timer again",
		[]change{
			in("timer", "Status.unchanged", never("s.State")),
			query("store/sqlite/query/schedule.sql", "canceled_at = NULL,", "canceled_at = NULL, reached_at = NULL,"),
		},
		invariants,
	},
	{
		"I9", "a CancelTimer takes back what has fired",
		[]change{
			in("timer", "Status.Cancel", first("if s.State == Reached { return Status{State: Canceled, Version: v}, DidCancel }")),
			query("store/sqlite/query/cancel.sql", "data = NULL", "data = NULL, reached_at = NULL"),
		},
		invariants,
	},
	{
		"I6", "a CancelTimer that comes first leaves no row, and an older ScheduleTimer fires",
		[]change{in("timer", "Status.Cancel", first("if s == (Status{}) { return s, WasCanceled }"))},
		invariants,
	},
	{
		"I5", "a rescheduled timer keeps the correlation of the older command",
		[]change{query("store/sqlite/query/schedule.sql", "{traveling = excluded.}", "traceparent = excluded.traceparent, data = excluded.data")},
		sqlite,
	},
}

// firing are mutants of the way from the clock to the outbox.
var firing = []mutant{
	{
		"I12", "a tenant keeps its next due time when a timer becomes due sooner",
		[]change{query("store/sqlite/query/count.sql", "next_due = excluded.next_due", "next_due = coalesce(next_due, excluded.next_due)")},
		sqlite,
	},
	{
		"I12", "a timer that is set again does not move the next due time of its tenant",
		[]change{query("store/sqlite/migrations/00001_timers.sql", "WHERE tenant_id = NEW.tenant_id; END", "WHERE tenant_id = NEW.service_call_id; END")},
		sqlite,
	},
	{
		"I2", "a due time is rounded down",
		[]change{in("timer", "RoundUp", swap("down.Add(time.Millisecond)", "down"))},
		domain,
	},
	{
		"I2", "the clock is rounded up",
		[]change{in("poller", "Poller.now", swap("timer.RoundDown", "timer.RoundUp"))},
		polling,
	},
	{
		"I2", "the store returns what is due in a millisecond",
		[]change{query("store/sqlite/query/due.sql", "due_at <= ?1", "due_at <= ?1 + 1")},
		sqlite,
	},
	{
		"I2", "a clock that jumps is believed",
		[]change{in("poller", "guard.gained", first("return 0"))},
		polling,
	},
	{
		"I9", "Reach takes canceled timers",
		[]change{
			query("store/sqlite/query/due.sql", "state = 'Scheduled'", "state <> 'Reached'"),
			query("store/sqlite/query/mark.sql", "SET state = CASE", "SET canceled_at = NULL, state = CASE"),
			query("store/sqlite/query/mark.sql", "WHERE state = 'Scheduled' AND", "WHERE"),
		},
		sqlite,
	},
	{
		"I10", "a timer is Reached without its event",
		[]change{in("poller", "Poller.*", pretend("tx.Emit"))},
		polling,
	},
	{
		"I10", "events are appended in a transaction after the one that marks",
		[]change{
			in("poller", "Poller.*", pretend("tx.Emit")),
			in("poller", "Poller.*", instead("p.opt.Reached", "func() { _ = p.store.Update(ctx, func(tx timer.Tx) error { return tx.Emit(ctx, events...) }); $ }()")),
		},
		invariants,
	},
	{
		"I12", "a timer that is committed during a poll is noticed at the next interval",
		[]change{in("poller", "gate.sooner", first("if g.until.IsZero() { return }"))},
		polling,
	},
	{
		"I12", "no command wakes the poller",
		[]change{in("poller", "Poller.Sooner", skip("sooner"))},
		polling,
	},
	{
		"I15", "the poller goes on with a database that is corrupt",
		[]change{in("poller", "Poller.Run", never("timer.ErrFatal"))},
		polling,
	},
	{
		"I14", "a tenant with a million due timers delays all others",
		[]change{in("store/sqlite", "transaction.Reach", never("backlogged"))},
		sqlite,
	},
}
