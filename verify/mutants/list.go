package main

// Test runs that catch more than one mutant.
var (
	invariants = test{"./app", "^TestInvariants$", "-rapid.seed=1 -rapid.checks=600 -rapid.nofailfile -rapid.shrinktime=1s"}
	polling    = test{"./poller", ".", ""}
	domain     = test{"./timer", ".", ""}
	wire       = test{"./envelope", ".", ""}
	storing    = test{"./store", ".", ""}
	sqlite     = test{"./store/sqlite", "^TestOwnFile$", ""}
	postgres   = test{"./store/postgres", "^TestTogether$", ""}
	replaying  = test{"./broker/deadletter", ".", ""}
	forwarding = test{"./outbox", ".", "-skip=^TestTopicThatIsBack"} // which takes half a minute
	inflight   = test{"./broker/inflight", ".", ""}
	settings   = test{"./config", ".", ""}
)

// all returns every mutant, in the order of the promises.
func all() []mutant {
	var list []mutant
	for _, part := range [][]mutant{timers, intakes, firing, messages, publishing, deliveries, brokers, databases, recoveries, surroundings} {
		list = append(list, part...)
	}
	return list
}
