package main

// brokers are mutants of drivers.
var brokers = []mutant{
	{
		"I11", "Kafka: what is in flight is committed, and lost when the service dies",
		[]change{in("broker/kafka", "assignment.low", first("return p.next"))},
		test{"./broker/kafka", "^TestNothingIsCommittedBeforeItIsAcked$|^TestLowestOpenOffset$", ""},
	},
	{
		"I1", "Kafka: a record that was not stored counts as stored",
		[]change{in("broker/kafka", "call.note", first("r.err = nil"))},
		test{"./broker/kafka", "^TestFaultsLoseNothing$|^TestPartitionThatFailsFailsAlone$", ""},
	},
	{
		"I23", "NATS: a producer that claims the id of an event on another subject hides the event",
		[]change{in("broker/nats", "publisher.verifyDuplicates", swap("m.Subject != d.Subject", `m.Subject == ""`))},
		test{"./broker/nats", "^TestForeignMessageWithOurIDHidesNothing$", ""},
	},
	{
		"I17", "NATS: a subject that is denied counts as a broker that is away",
		[]change{in("broker/nats", "result", first("return unavailable(err)"))},
		test{"./broker/nats", "^TestOne", ""},
	},
	{
		"I13", "a message that is nacked comes back at once",
		[]change{in("broker", "RedeliveryDelay", first("return 0"))},
		test{"./broker/gochannel", "^TestContract$/.*[Nn]ack", ""},
	},
	{
		"I1", "RabbitMQ: a message that the server returns or refuses counts as stored",
		[]change{in("broker/rabbitmq", "confirmChannel.result", swap("s.confirm.Acked()", "true"))},
		test{"./broker/rabbitmq", "^TestQueueThatIsFull", ""},
	},
	{
		"I21", "NATS: a stream may be one that drops what was not consumed yet",
		[]change{in("broker/nats", "verify", swap("c.Discard == jetstream.DiscardOld && limited", "limited && false"))},
		test{"./broker/nats", "^TestStreamsThatCouldLoseAreNamed$", ""},
	},
	{
		"I21", "NATS: a consumer may be one that acks what was not handled",
		[]change{in("broker/nats", "verifyConsumer", swap("c.AckPolicy != jetstream.AckExplicitPolicy", "false"))},
		test{"./broker/nats", "^TestConsumersThatCouldLoseAreNamed$", ""},
	},
}
