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
	breaks("N1", "the end of the log is the floor though commands are unsettled", history,
		in("broker/nats", "Broker.Logs", swap("command <= floor", "(command <= floor || true)"))),
	breaks("N2", "events are done while they are in the outbox", recovering,
		in("app", "settledEnds.observe", swap("!settled", "false"))),
	breaks("N3", "numbers are written into a file that has the content of an older copy", contents,
		in("store/sqlite", "Store.Advance", swap("writes != before+1", "false"))),
	breaks("N4", "a quiet service goes on with a file that has the content of an older copy", contents,
		in("store/sqlite", "Store.checkContent", first("return nil"))),
	breaks("N4", "an instance goes on though its server is another one", servers,
		in("store/postgres", "history.compare", swap("last.cluster != now.cluster || last.timeline != now.timeline || now.position < last.position", "false"))),
	breaks("N4", "an instance goes on though the tables were put back", servers,
		in("store/postgres", "history.compare", swap("now.written < last.written", "false"))),
	breaks("N1", "the numbers after a reading are those of commands that the broker delivers again", test{"./app", "^TestASelectionThatWasInterrupted|^TestWhereAStartBegins$", ""},
		in("app", "reading.end", swap("min(s.upTo, s.Floor)", "s.upTo"))),
	breaks("N5", "a log that has lost its end keeps its number at a start", starts,
		in("app", "recovery.plan", swap("number > l.Last", "false"))),
	breaks("N5", "a log that has lost its end keeps its number while the service runs", test{"./app", "^TestALogThatLosesItsEnd", ""},
		in("app", "numberWriter.write", swap("known && before > l.Last", "false"))),
	breaks("N5", "a log that is new is read from the floor", starts,
		in("app", "recovery.plan", swap("anyLog || known.Empty", "anyLog && known.Empty || known.Empty"))),
	breaks("N5", "a database that was not used with the broker reads all", starts,
		in("app", "recovery.plan", swap("anyLog || known.Empty", "(anyLog || known.Empty || true)"))),
	breaks("N6", "nothing is said about commands that the broker has lost", test{"./app", "^TestWhereAStartBegins|^TestAGapIsSaidOnce$", ""},
		in("app", "recovery.sayGap", never("missing"))),
	breaks("N6", "the broker removes commands above the numbers", trimming,
		in("broker/nats", "Broker.needed", first("return 1 << 62"))),
	breaks("N5", "the numbers of a database that is being recovered are not written before", test{"./app", "^TestAnInterruptedRecovery", ""},
		in("app", "reading.begin", first("return nil"))),
	breaks("I18", "nothing that a database lacks is read", recovering,
		in("app", "recovery.replay", first("return done, nil"))),
	breaks("I18", "a recovery believes dead letters that others have written", test{"./app", "^TestARecoveryReadsOnlyWhatIsOurs$", ""},
		in("broker/deadletter", "Ours", first("return true"))),
	breaks("I18", "a recovery does not look what has fired", recovering,
		in("app", "recovery.eventsOf", first("return nil"))),
	breaks("I19", "timers fire at a start before the commands that waited were read", test{"./app", "^TestNothingFiresWhileTheBrokerIsAway$", ""},
		in("app", "catchUp.await", first("return true"))),
	breaks("I19", "timers fire after an outage before the commands that waited were read", test{"./app", "^TestCatchesUpAfterEachReason$", ""},
		in("app", "catchUp.wait", swap("now == c.after", "true"))),
	breaks("I19", "a backlog that never ends holds back all timers", test{"./app", "^TestCatchUpTakesNoLongerThanItsTimeout", ""},
		in("app", "catchUp.wait", swap("!time.Now().Before(until)", "false"))),
}
