package main

// messages are mutants of the code that reads and writes messages.
var messages = []mutant{
	breaks("I4", "the id of an event changes when its transaction is done again", wire,
		in("envelope", "EventID", swap("e.DueAt", "e.ReachedAt"))),
	breaks("I4", "two generations of a timer share an id, and the broker drops the second event", wire,
		in("envelope", "EventID", swap("e.CommandID", `""`))),
	breaks("I8", "a payload may name another tenant than its envelope", wire,
		in("envelope", "decoder.*", never("m.TenantID"))),
	breaks("I1", "a dead letter is removed though its replay was not published", replaying,
		in("broker/deadletter", "", instead("Publish", "func() []error { _ = $; return make([]error, 1) }()"))),
	breaks("I16", "a secret is printed", settings,
		in("config", "Secret.String", swap("hidden", "*s.text"))),
	breaks("I16", "credentials of a URL are printed", settings,
		in("config", "Secret.URL", swap(`hidden + "@"`, `u.User.String() + "@"`))),
}

// databases are mutants of stores.
var databases = []mutant{
	breaks("I17", "a command that the database refuses fails all that share its commit", test{"./store/sqlite", "^TestReferenced$", ""},
		in("store/sqlite", "commands.step", instead("isMissing", "false && $"))),
	breaks("I11", "a loss of power takes what was acked", test{"./store/sqlite", "^TestDSN$", ""},
		in("store/sqlite", "writerPragmas", swap(`"full"`, `"normal"`))),
	breaks("I11", "the caller of a batch gets the outcome of another one's command", storing,
		in("store", "group.*", swap("results[n:]", "results"))),
	breaks("I17", "a caller that gives up ends the commit of all others", storing,
		in("store", "group.*", swap("context.WithoutCancel(ctx)", "ctx"))),
	breaks("I18", "commits go to a file that was replaced", test{"./store/sqlite", "^TestFileGone$", ""},
		in("store/sqlite", "Store.transact", pretend("s.intact"))),
	breaks("I7", "a timer is purged by the producer's clock, and a redelivery makes it again", sqlite,
		query("store/sqlite/query/over.sql", "coalesce(reached_at, canceled_at) < ?1", "command_at < ?1"),
		query("store/sqlite/query/purge.sql", "coalesce(reached_at, canceled_at) < ?1", "command_at < ?1")),
	breaks("I1", "timers that wait are purged", sqlite,
		query("store/sqlite/query/purge.sql", "state <> 'Scheduled' AND coalesce(reached_at, canceled_at) < ?1", "coalesce(reached_at, canceled_at, due_at) < ?1")),
	breaks("I8", "a list shows the timers of all tenants", sqlite,
		query("store/sqlite/query/list.sql", "tenant_id = ?1", "(tenant_id = ?1 OR true)")),
	breaks("I22", "two open one file", test{"./store/sqlite", "^TestOneOwnerAFile$", ""},
		in("store/sqlite", "takeLock", swap("!taken", "taken && false"))),
}

// surroundings are mutants of what instances on one PostgreSQL do to each other.
// Their tests need TIMER_TEST_POSTGRES.
var surroundings = []mutant{
	breaks("I17", "one slow instance stops all others", test{"./store/postgres", "^TestReachPassesByWhatAnotherHolds$", ""},
		query("store/postgres/query/reach.sql", "FOR UPDATE SKIP LOCKED", "FOR UPDATE")),
	breaks("I7", "a command changes a timer that fired meanwhile", postgres,
		query("store/postgres/query/status.sql", "FOR UPDATE) AS timer", ") AS timer")),
}
