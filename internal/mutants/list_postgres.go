package main

// postgres are mutants of what only instances that share a database can do to each
// other. Their tests need a server: TIMER_TEST_POSTGRES.
var postgres = []mutant{
	{
		"reach waits for another", "one slow instance stops all others",
		[]edit{{"store/postgres/query/reach.sql", "          FOR UPDATE SKIP LOCKED),", "          FOR UPDATE),"}},
		test{"./store/postgres", "^TestReachPassesByWhatAnotherHolds$", ""},
	},
	{
		"shares are claimed without a lock", "two instances that are crowded lock each other out",
		[]edit{{"store/postgres/query/reach_shares.sql", "                 FOR UPDATE SKIP LOCKED) AS due", "               ) AS due"}},
		test{"./store/postgres", "^TestReachPassesByWhatAnotherHolds$", ""},
	},
	{
		"standing without a lock", "a command is told that it changed a timer that has fired meanwhile",
		[]edit{{"store/postgres/query/standing.sql", "          FOR UPDATE) AS timer", "       ) AS timer"}},
		togetherOnPostgres,
	},
	{
		"keys in the order they came", "calls with the same keys lock each other out",
		[]edit{{
			"store/postgres/apply.go",
			"slices.SortStableFunc(order, func(i, j int) int { return a.key(i).Compare(a.key(j)) })",
			"slices.SortStableFunc(order, func(i, j int) int { return len(a.key(i).ServiceCallID) - len(a.key(j).ServiceCallID) })",
		}},
		togetherOnPostgres,
	},
	{
		"a purge goes unseen", "a command is told that it scheduled a timer that is not there",
		[]edit{{"store/postgres/apply.go", "return nil, errPurged", "return known[:0], nil"}},
		test{"./store/postgres", "^TestTimerThatIsPurgedMeanwhileIsScheduledAnew$", ""},
	},
	{
		"a stopped instance keeps its rows", "timers wait until somebody wakes it, or kills it",
		[]edit{{"store/postgres/query/settings.sql", "'idle_in_transaction_session_timeout', '4s'", "'idle_in_transaction_session_timeout', '1h'"}},
		test{"./store/postgres", "^TestStoppedInstanceLetsGo$", ""},
	},
	{
		"a stalled instance keeps its rows", "the same, if it was reading",
		[]edit{{"store/postgres/query/settings.sql", "'tcp_user_timeout', '4s'", "'tcp_user_timeout', '0'"}},
		test{"./store/postgres", "^TestStalledReaderLetsGo$", ""},
	},
	{
		"settings of a session", "what one transaction set holds for whoever PgBouncer gives the connection to",
		[]edit{{"store/postgres/query/settings.sql", "set_config('synchronous_commit', 'off', true)", "set_config('synchronous_commit', 'off', false)"}},
		test{"./store/postgres", "^TestDurabilityOfTransactions$", ""},
	},
	{
		"migrations without a lock", "of instances that start at once all but one fail",
		[]edit{{"store/postgres/migrate.go", "step{text: beginWriting}, step{text: sqlPatience}, step{text: sqlLock, args: []any{int32(lockMigrate)}}", "step{text: beginWriting}"}},
		test{"./store/postgres", "^TestManyOpenAtOnce$", "-test.count=5"},
	},
	{
		"folded counts start anew", "counts are those of the last minute",
		[]edit{{"store/postgres/query/fold.sql", "sums.scheduled + coalesce(before.scheduled, 0)", "sums.scheduled"}},
		test{"./store/postgres", "^TestFoldChangesNoCount$", ""},
	},
}

var togetherOnPostgres = test{"./store/postgres", "^TestTogether$", ""}
