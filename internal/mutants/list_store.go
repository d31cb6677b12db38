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
			{"timer/standing.go", "case v.Compare(s.Version) < 0:", "case v.Compare(s.Version) == 0:"},
			{"store/sqlite/query/schedule_again.sql", "AND (command_at, command_id) < (?3, ?4)", "AND (command_at, command_id) <> (?3, ?4)"},
		},
		invariants,
	},
	{
		"stale cancel wins", "an older CancelTimer that arrives late takes a newer timer back",
		[]edit{{
			"store/sqlite/query/cancel.sql",
			"(command_at, command_id) < (?3, ?4)",
			"(command_at, command_id) <> (?3, ?4)",
		}},
		invariants,
	},
	{
		"reached is armed again", "a newer ScheduleTimer makes a timer fire twice",
		[]edit{
			{"timer/standing.go", "case s.State == Reached:", "case s.State == \"\":"},
			{"store/sqlite/query/schedule_again.sql", "AND state <> 'Reached'", "AND state <> ''"},
			{"store/sqlite/query/schedule_again.sql", "canceled_at = NULL,", "canceled_at = NULL, reached_at = NULL,"},
		},
		invariants,
	},
	{
		"cancel after reached", "a CancelTimer takes back what has fired",
		[]edit{
			{"store/sqlite/query/cancel.sql", "AND state = 'Scheduled'", "AND state <> 'Canceled'"},
			{"store/sqlite/query/cancel.sql", "       state = 'Canceled'\n", "       reached_at = NULL,\n       state = 'Canceled'\n"},
		},
		invariants,
	},
	{
		"cancel without tombstone", "an older ScheduleTimer revives what was taken back before it came",
		[]edit{{
			"store/sqlite/schedule.go",
			"\tchanged, err = t.change(ctx, sqlTombstone, args[:]...)",
			"\tif _, err := t.standing(ctx, c.Key); err != nil {\n\t\treturn timer.WasCanceled, nil\n\t}\n\tchanged, err = t.change(ctx, sqlTombstone, args[:]...)",
		}},
		invariants,
	},
	{
		"cancel leaves the version", "a ScheduleTimer between two CancelTimers revives the timer",
		[]edit{{"store/sqlite/schedule.go", "return outcome, t.mustChange(ctx, c.Key, sqlCancelAgain, args[:]...)", "return outcome, nil"}},
		ownFile,
	},
	{
		"cancel leaves the version, whole app", "the same, seen from outside",
		[]edit{{"store/sqlite/schedule.go", "return outcome, t.mustChange(ctx, c.Key, sqlCancelAgain, args[:]...)", "return outcome, nil"}},
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
		"tombstones are not counted", "a tenant seems to have fewer timers than it has, or less than none",
		[]edit{{"store/sqlite/schedule.go", "\t\tt.count(c.TenantID).Canceled++\n", ""}},
		ownFile,
	},
	{
		"purge by the producer's time", "a timer whose command is old is forgotten as soon as it is over, and made anew by a redelivery",
		[]edit{
			{"store/sqlite/query/over.sql", "coalesce(reached_at, canceled_at) < ?1", "command_at < ?1"},
			{"store/sqlite/query/purge.sql", "coalesce(reached_at, canceled_at) < ?1", "command_at < ?1"},
		},
		ownFile,
	},
	{
		"stop without drain", "a clean stop leaves events behind until the next start",
		[]edit{{"app/app.go", "if clean {\n\t\ta.drain(ctx)", "if clean && a.log == nil {\n\t\ta.drain(ctx)"}},
		test{"./app", "Stop|Drain", ""},
	},
}
