package main

// Test runs of what happens when a database was lost.
var (
	recovering = test{"./app", "^TestRecovers", ""}
	starts     = test{"./app", "^TestWhereAStartBegins", ""}
	contents   = test{"./store/sqlite", "^TestContentOfAnOlderCopyIsFatal$", ""}
	servers    = test{"./store/postgres", "^TestAnotherServerIsFatal$|^TestAnInstanceThatWroteNothing", ""}
	trimming   = test{"./broker/nats", "^TestConsumedMessagesDoNotFillTheStream|^TestWhatIsNotConsumedStays", ""}
	history    = test{"./broker/nats", "^TestContractInProcess$/.*floor", ""}
)

// recoveries are mutants of the numbers, and of what a start reads above them.
var recoveries = []mutant{
	{
		"N1", "the end of the log is the floor though commands are unsettled",
		[]change{in("broker/nats", "Broker.Logs", swap("command <= floor", "(command <= floor || true)"))},
		history,
	},
	{
		"N2", "events are done while they are in the outbox",
		[]change{in("app", "settledEnds.observe", swap("!settled", "false"))},
		recovering,
	},
	{
		"N3", "numbers are written into a file that has the content of an older copy",
		[]change{in("store/sqlite", "Store.Advance", swap("writes != before+1", "false"))},
		contents,
	},
	{
		"N4", "a quiet service goes on with a file that has the content of an older copy",
		[]change{in("store/sqlite", "Store.checkContent", first("return nil"))},
		contents,
	},
	{
		"N4", "an instance goes on though its server is another one",
		[]change{in("store/postgres", "history.compare", swap("last.cluster != now.cluster || last.timeline != now.timeline || now.position < last.position", "false"))},
		servers,
	},
	{
		"N4", "an instance goes on though the tables were put back",
		[]change{in("store/postgres", "history.compare", swap("now.written < last.written", "false"))},
		servers,
	},
	{
		"N1", "the numbers after a reading are those of commands that the broker delivers again",
		[]change{in("app", "reading.end", swap("min(s.upTo, s.Floor)", "s.upTo"))},
		test{"./app", "^TestASelectionThatWasInterrupted|^TestWhereAStartBegins$", ""},
	},
	{
		"N5", "a log that has lost its end keeps its number at a start",
		[]change{in("app", "recovery.plan", swap("number > l.Last", "false"))},
		starts,
	},
	{
		"N5", "a log that has lost its end keeps its number while the service runs",
		[]change{in("app", "numberWriter.write", swap("known && before > l.Last", "false"))},
		test{"./app", "^TestALogThatLosesItsEnd", ""},
	},
	{
		"N5", "a log that is new is read from the floor",
		[]change{in("app", "recovery.plan", swap("anyLog || known.Empty", "anyLog && known.Empty || known.Empty"))},
		starts,
	},
	{
		"N5", "a database that was not used with the broker reads all",
		[]change{in("app", "recovery.plan", swap("anyLog || known.Empty", "(anyLog || known.Empty || true)"))},
		starts,
	},
	{
		"N6", "nothing is said about commands that the broker has lost",
		[]change{in("app", "recovery.sayGap", never("missing"))},
		test{"./app", "^TestWhereAStartBegins|^TestAGapIsSaidOnce$", ""},
	},
	{
		"N6", "the broker removes commands above the numbers",
		[]change{in("broker/nats", "Broker.needed", first("return 1 << 62"))},
		trimming,
	},
	{
		"N5", "the numbers of a database that is being recovered are not written before",
		[]change{in("app", "reading.begin", first("return nil"))},
		test{"./app", "^TestAnInterruptedRecovery", ""},
	},
	{
		"I18", "nothing that a database lacks is read",
		[]change{in("app", "recovery.replay", first("return done, nil"))},
		recovering,
	},
	{
		"I18", "a recovery believes dead letters that others have written",
		[]change{in("broker/deadletter", "Ours", first("return true"))},
		test{"./app", "^TestARecoveryReadsOnlyWhatIsOurs$", ""},
	},
	{
		"I18", "a recovery does not look what has fired",
		[]change{in("app", "recovery.eventsOf", first("return nil"))},
		recovering,
	},
	{
		"I19", "timers fire at a start before the commands that waited were read",
		[]change{in("app", "catchUp.await", first("return true"))},
		test{"./app", "^TestNothingFiresWhileTheBrokerIsAway$", ""},
	},
	{
		"I19", "timers fire after an outage before the commands that waited were read",
		[]change{in("app", "catchUp.wait", swap("now == c.after", "true"))},
		test{"./app", "^TestCatchesUpAfterEachReason$", ""},
	},
	{
		"I19", "a backlog that never ends holds back all timers",
		[]change{in("app", "catchUp.wait", swap("!time.Now().Before(until)", "false"))},
		test{"./app", "^TestCatchUpTakesNoLongerThanItsTimeout", ""},
	},
}
