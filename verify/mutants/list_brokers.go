package main

// brokers are mutants of drivers.
var brokers = []mutant{
	breaks("I11", "Kafka: what is in flight is committed, and lost when the service dies", test{"./broker/kafka", "^TestNothingIsCommittedBeforeItIsAcked$|^TestLowestOpenOffset$", ""},
		in("broker/kafka", "assignment.low", first("return p.next"))),
	breaks("I1", "Kafka: a record that was not stored counts as stored", test{"./broker/kafka", "^TestFaultsLoseNothing$|^TestPartitionThatFailsFailsAlone$", ""},
		in("broker/kafka", "call.note", first("r.err = nil"))),
	breaks("I23", "NATS: a producer that claims the id of an event on another subject hides the event", test{"./broker/nats", "^TestForeignMessageWithOurIDHidesNothing$", ""},
		in("broker/nats", "publisher.verifyDuplicates", swap("m.Subject != d.Subject", `m.Subject == ""`))),
	breaks("I17", "NATS: a subject that is denied counts as a broker that is away", test{"./broker/nats", "^TestOne", ""},
		in("broker/nats", "result", first("return unavailable(err)"))),
	breaks("I13", "a message that is nacked comes back at once", test{"./broker/gochannel", "^TestContract$/.*[Nn]ack", ""},
		in("broker", "RedeliveryDelay", first("return 0"))),
	breaks("I1", "RabbitMQ: a message that the server returns or refuses counts as stored", test{"./broker/rabbitmq", "^TestQueueThatIsFull", ""},
		in("broker/rabbitmq", "confirmChannel.result", swap("s.confirm.Acked()", "true"))),
	breaks("I21", "NATS: a stream may be one that drops what was not consumed yet", test{"./broker/nats", "^TestStreamsThatCouldLoseAreNamed$", ""},
		in("broker/nats", "verify", swap("c.Discard == jetstream.DiscardOld && limited", "limited && false"))),
	breaks("I21", "NATS: a consumer may be one that acks what was not handled", test{"./broker/nats", "^TestConsumersThatCouldLoseAreNamed$", ""},
		in("broker/nats", "verifyConsumer", swap("c.AckPolicy != jetstream.AckExplicitPolicy", "false"))),
}
