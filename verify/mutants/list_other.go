package main

// messages are mutants of the code that reads and writes messages.
var messages = []mutant{
	{
		"I4", "the id of an event changes when its transaction is done again",
		[]change{in("envelope", "EventID", swap("e.DueAt", "e.ReachedAt"))},
		wire,
	},
	{
		"I4", "two generations of a timer share an id, and the broker drops the second event",
		[]change{in("envelope", "EventID", swap("e.CommandID", `""`))},
		wire,
	},
	{
		"I8", "a payload may name another tenant than its envelope",
		[]change{in("envelope", "decoder.*", never("m.TenantID"))},
		wire,
	},
	{
		"I1", "a dead letter is removed though its replay was not published",
		[]change{in("broker/deadletter", "", instead("Publish", "func() []error { _ = $; return make([]error, 1) }()"))},
		replaying,
	},
	{
		"I16", "a secret is printed",
		[]change{in("config", "Secret.String", swap("hidden", "*s.text"))},
		settings,
	},
	{
		"I16", "credentials of a URL are printed",
		[]change{in("config", "Secret.URL", swap(`hidden + "@"`, `u.User.String() + "@"`))},
		settings,
	},
}

// databases are mutants of stores.
var databases = []mutant{
	{
		"I17", "a command that the database refuses fails all that share its commit",
		[]change{in("store/sqlite", "commands.step", instead("isMissing", "false && $"))},
		test{"./store/sqlite", "^TestReferenced$", ""},
	},
	{
		"I11", "a loss of power takes what was acked",
		[]change{in("store/sqlite", "writerPragmas", swap(`"full"`, `"normal"`))},
		test{"./store/sqlite", "^TestDSN$", ""},
	},
	{
		"I11", "the caller of a batch gets the outcome of another one's command",
		[]change{in("store", "group.*", swap("results[n:]", "results"))},
		storing,
	},
	{
		"I17", "a caller that gives up ends the commit of all others",
		[]change{in("store", "group.*", swap("context.WithoutCancel(ctx)", "ctx"))},
		storing,
	},
	{
		"I18", "commits go to a file that was replaced",
		[]change{in("store/sqlite", "Store.transact", pretend("s.intact"))},
		test{"./store/sqlite", "^TestFileGone$", ""},
	},
	{
		"I7", "a timer is purged by the producer's clock, and a redelivery makes it again",
		[]change{
			query("store/sqlite/query/over.sql", "coalesce(reached_at, canceled_at) < ?1", "command_at < ?1"),
			query("store/sqlite/query/purge.sql", "coalesce(reached_at, canceled_at) < ?1", "command_at < ?1"),
		},
		sqlite,
	},
	{
		"I1", "timers that wait are purged",
		[]change{query("store/sqlite/query/purge.sql", "state <> 'Scheduled' AND coalesce(reached_at, canceled_at) < ?1", "coalesce(reached_at, canceled_at, due_at) < ?1")},
		sqlite,
	},
	{
		"I8", "a list shows the timers of all tenants",
		[]change{query("store/sqlite/query/list.sql", "tenant_id = ?1", "(tenant_id = ?1 OR true)")},
		sqlite,
	},
	{
		"I22", "two open one file",
		[]change{in("store/sqlite", "takeLock", swap("!taken", "taken && false"))},
		test{"./store/sqlite", "^TestOneOwnerAFile$", ""},
	},
}

// surroundings are mutants of what instances on one PostgreSQL do to each other.
// Their tests need TIMER_TEST_POSTGRES.
var surroundings = []mutant{
	{
		"I17", "one slow instance stops all others",
		[]change{query("store/postgres/query/reach.sql", "FOR UPDATE SKIP LOCKED", "FOR UPDATE")},
		test{"./store/postgres", "^TestReachPassesByWhatAnotherHolds$", ""},
	},
	{
		"I7", "a command changes a timer that fired meanwhile",
		[]change{query("store/postgres/query/status.sql", "FOR UPDATE) AS timer", ") AS timer")},
		postgres,
	},
}
