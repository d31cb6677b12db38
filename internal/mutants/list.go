package main

// Runs that catch more than one mutant.
var (
	invariants = test{"./app", "^TestInvariants$", "-rapid.seed=1 -rapid.checks=600 -rapid.nofailfile -rapid.shrinktime=1s"}
	bubbles    = test{"./app", "^TestHoursOfTimersWithoutLateness$/gochannel", ""}
	ownFile    = test{"./store/sqlite", "^TestOwnFile$", ""}
	intake     = test{"./handlers", ".", ""}
	forwarding = test{"./outbox", ".", ""}
	offering   = test{"./broker/nats", "^TestContractInProcess$/[oO]ffer", ""}
	polling    = test{"./poller", ".", ""}
)

// all returns every mutant, in the order of a message's way.
func all() []mutant {
	var list []mutant
	for _, part := range [][]mutant{brokers, wayIn, commands, firing, quotas, wayOut, upkeep, postgres} {
		list = append(list, part...)
	}
	return list
}
