package main

// commands are mutants of what a command does to a timer.
var commands = []mutant{
	{
		"due time cut", "a timer fires up to a millisecond early",
		[]edit{{"timer/time.go", "return down.Add(time.Millisecond)", "return down"}},
		test{"./timer", ".", ""},
	},
	{
		"stale command wins", "an older ScheduleTimer that arrives late replaces the newer one",
		[]edit{
			{"store/sqlite/schedule.go", "case v.Compare(s.version) < 0:", "case v.Compare(s.version) == 0:"},
			{"store/sqlite/query/schedule_again.sql", "AND (command_at, command_id) < (?3, ?4)", "AND (command_at, command_id) <> (?3, ?4)"},
		},
		invariants,
	},
	{
		"stale cancel wins", "an older CancelTimer that arrives late takes a newer timer back",
		[]edit{{
			"store/sqlite/query/cancel.sql",
			"(timer_schedules.command_at, timer_schedules.command_id) < (excluded.command_at, excluded.command_id)",
			"(timer_schedules.command_at, timer_schedules.command_id) <> (excluded.command_at, excluded.command_id)",
		}},
		invariants,
	},
	{
		"reached is armed again", "a newer ScheduleTimer makes a timer fire twice",
		[]edit{
			{"store/sqlite/schedule.go", "case s.state == timer.Reached:", "case s.state == \"\":"},
			{"store/sqlite/query/schedule_again.sql", "AND state <> 'Reached'", "AND state <> ''"},
			{"store/sqlite/query/schedule_again.sql", "canceled_at = NULL,", "canceled_at = NULL, reached_at = NULL,"},
		},
		invariants,
	},
	{
		"cancel after reached", "a CancelTimer takes back what has fired",
		[]edit{
			{"store/sqlite/query/cancel.sql", "WHERE timer_schedules.state = 'Scheduled'", "WHERE timer_schedules.state <> 'Canceled'"},
			{"store/sqlite/query/cancel.sql", "       state = 'Canceled'\n", "       reached_at = NULL,\n       state = 'Canceled'\n"},
		},
		invariants,
	},
	{
		"cancel without tombstone", "an older ScheduleTimer revives what was taken back before it came",
		[]edit{{
			"store/sqlite/schedule.go",
			"\tchanged, err := t.change(ctx, sqlCancel, args[:]...)",
			"\tif _, err := t.standing(ctx, c.Key); err != nil {\n\t\treturn timer.WasCanceled, nil\n\t}\n\tchanged, err := t.change(ctx, sqlCancel, args[:]...)",
		}},
		invariants,
	},
	{
		"cancel leaves the version", "a ScheduleTimer between two CancelTimers revives the timer",
		[]edit{{"store/sqlite/schedule.go", "return timer.WasCanceled, t.mustChange(ctx, c.Key, sqlCancelAgain, args[:]...)", "return timer.WasCanceled, nil"}},
		ownFile,
	},
	{
		"cancel leaves the version, whole app", "the same, seen from outside",
		[]edit{{"store/sqlite/schedule.go", "return timer.WasCanceled, t.mustChange(ctx, c.Key, sqlCancelAgain, args[:]...)", "return timer.WasCanceled, nil"}},
		invariants,
	},
	{
		"batch mixes outcomes up", "a caller is told what another one's command did",
		[]edit{{"store/batch.go", "c.outcomes, outcomes = outcomes[:n:n], outcomes[n:]", "c.outcomes = outcomes[:n:n]"}},
		test{"./store", "Batch|Commit|Command|Caller", ""},
	},
	{
		"batch ends with its leader", "a caller who gives up breaks the commit of all others",
		[]edit{{"store/batch.go", "g.applyAll(context.WithoutCancel(ctx), batch)", "g.applyAll(ctx, batch)"}},
		test{"./store", "Batch|Commit|Command|Caller", ""},
	},
	{
		"replaced file goes unseen", "commits go to a file that ends with the process",
		[]edit{{"store/sqlite/transaction.go", "\tif err := ready.file.check(); err != nil {\n\t\treturn err\n\t}\n", ""}},
		test{"./store/sqlite", "^TestFileGone$", ""},
	},
	{
		"replaced file, idle", "an idle service does not notice that its file is gone",
		[]edit{{"store/sqlite/identity.go", "err = ready.file.check()", "_ = ready.file"}},
		test{"./store/sqlite", "^TestIdleServiceNotices$", ""},
	},
	{
		"commit without sync", "a loss of power takes timers that were acked",
		[]edit{{"store/sqlite/dsn.go", `synchronous := "full"`, `synchronous := "normal"`}},
		test{"./store/sqlite", "^TestDSN$", ""},
	},
}

// upkeep are mutants of what happens beside the way of a message.
var upkeep = []mutant{
	{
		"purge by the producer's time", "a timer whose command is old is forgotten as soon as it is over, and made anew by a redelivery",
		[]edit{
			{"store/sqlite/query/purge.sql", "coalesce(reached_at, canceled_at) < ?3", "command_at < ?3"},
			{"store/sqlite/query/purge_look.sql", "FILTER (WHERE coalesce(reached_at, canceled_at) < ?3)", "FILTER (WHERE command_at < ?3)"},
			{"store/sqlite/query/purge_look.sql", "SELECT rowid AS id, reached_at", "SELECT rowid AS id, command_at, reached_at"},
		},
		ownFile,
	},
	{
		"stop without drain", "a clean stop leaves events behind until the next start",
		[]edit{{"app/app.go", "if clean {\n\t\ta.drain(ctx)", "if clean && a.log == nil {\n\t\ta.drain(ctx)"}},
		test{"./app", "Stop|Drain", ""},
	},
}
