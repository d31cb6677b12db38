package main

// Test runs of what happens when a database was lost.
var (
	recovering = test{"./app", "^TestRecovers", ""}
	history    = test{"./broker/nats", "^TestContractInProcess$/.*floor", ""}
)

// recoveries are mutants of the numbers, and of what a start reads above them.
var recoveries = []mutant{
	{
		"N1", "the end of the log is the floor though commands are unsettled",
		[]change{in("broker/nats", "Broker.Logs", swap("command <= floor", "true"))},
		history,
	},
	{
		"N2", "events are done while they are in the outbox",
		[]change{in("app", "settledEnds.observe", swap("!settled", "false"))},
		recovering,
	},
	{
		"N3", "numbers are written into a file that has the content of an older copy",
		[]change{in("store/sqlite", "Store.checkContent", first("return nil"))},
		sqlite,
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
		"I18", "a recovery does not look what has fired",
		[]change{in("app", "marks.eventsOf", first("return nil"))},
		recovering,
	},
}
