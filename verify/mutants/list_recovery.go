package main

// Test runs of what happens when a database was lost.
var (
	recovering = test{"./app", "^TestRecovers", ""}
	verifying  = test{"./app", "^TestAnInstanceThatLostItsSessionVerifiesAgain$", ""}
	history    = test{"./broker/nats", "^TestContractInProcess$/.*(Replay|osition|not_acked)", ""}
)

// recoveries are mutants of what is noted of the broker's logs, and of what a service
// does at its start when its database was lost or is an older copy.
var recoveries = []mutant{
	{
		"I18", "no position is noted",
		[]change{in("store/sqlite", "transaction.note", first("return nil"))},
		recovering,
	},
	{
		"I18", "a position is noted that is newer than the transaction",
		[]change{in("store/sqlite", "Store.noting", instead("Advances", "func() []store.Advance { _ = $; return s.positions.Advances(s.positions.Current()) }()"))},
		sqlite,
	},
	{
		"I18", "what was received is noted as done before it is committed",
		[]change{in("broker/nats", "Broker.Positions", swap("number(done)", "number(seen)"))},
		history,
	},
	{
		"I18", "a lost database gets the commands up to the last one below which all were acked",
		[]change{in("broker", "Replay", swap("l.Delivered", "l.Acked"))},
		history,
	},
	{
		"I18", "a recovery does not look what has fired",
		[]change{in("app", "marks.eventsOf", first("return nil"))},
		recovering,
	},
	{
		"I18", "an empty database takes the place of another one, and is not recovered",
		[]change{
			in("app", "owner.replace", first("return nil")),
			in("app", "recovery.verify", first(`return c, "", nil`)),
		},
		recovering,
	},
	{
		"I18", "an older copy is not noticed by the commands that were acked since",
		[]change{
			in("app", "recovery.verify", never("acked > 0")),
			in("app", "recovery.verify", never("found.Reached > 0")),
		},
		recovering,
	},
	{
		"I18", "an instance that lost its session shares the database as it is",
		[]change{in("app", "recovery.again", first("return nil"))},
		verifying,
	},
}
