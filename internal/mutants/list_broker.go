package main

// brokers are mutants of what is between a server and the handlers.
var brokers = []mutant{
	{
		"commit before the ack, Kafka", "what is in flight when the service dies is lost",
		[]edit{{"broker/kafka/part.go", "\treturn p.slots[0].offset, above\n", "\treturn p.next, nil\n"}},
		test{"./broker/kafka", "^TestNothingIsCommittedBeforeItIsAcked$", ""},
	},
	{
		"acked above a hole, Kafka", "what was handled behind a message that was not comes again after a restart",
		[]edit{{"broker/kafka/part.go", "\tif !handled && !p.done.contain(r.Offset) {", "\tif !handled {"}},
		test{"./broker/kafka", "^TestContract$/A_role_goes_on|^TestNothingIsCommittedBeforeItIsAcked$", ""},
	},
	{
		"no record key, Kafka", "messages of one key go to all partitions and lose their order",
		[]edit{{"broker/kafka/message.go", "key := broker.Key(msg); key != \"\"", "key := broker.Key(msg); key == \"-\""}},
		test{"./broker/kafka", "^TestMembersThatComeAndGoKeepTheOrder$|^TestContract$/Messages_of_a_key", ""},
	},
	{
		"a failed record counts as stored, Kafka", "events leave the outbox that Kafka does not have",
		[]edit{{"broker/kafka/publisher.go", "\tif err != nil {\n\t\tr.failed++", "\tif err != nil && r.left < 0 {\n\t\tr.failed++"}},
		test{"./broker/kafka", "^TestFaultsLoseNothing$|^TestPublishEndsWhenTheServerGoes$", ""},
	},
	{
		"a nack is an ack", "a command that could not be handled now is lost",
		[]edit{{"broker/inflight/window.go", "\t\tw.lanes.Go(\"\", func() { w.again(f) })\n", "\t\tf.Delivery.Ack()\n"}},
		test{"./broker/inflight", ".", ""},
	},
	{
		"what is given back is acked", "commands that wait when the intake ends are lost",
		[]edit{{"broker/inflight/window.go", "\t\tf.Return()\n", "\t\tf.Delivery.Ack()\n"}},
		test{"./broker/inflight", ".", ""},
	},
	{
		"no bound", "while the store is down the memory fills with commands",
		[]edit{{"broker/inflight/window.go", "full := w.messages >= w.opt.Messages || w.bytes >= w.opt.Bytes", "full := w.messages < 0"}},
		test{"./broker/inflight", ".", ""},
	},
	{
		"no lanes", "messages of one key are handled at once",
		[]edit{{"broker/inflight/window.go", "w.lanes.Go(broker.Key(msg), func() { w.deliver(f, msg) })", "_ = broker.Key\n\tw.lanes.Go(\"\", func() { w.deliver(f, msg) })"}},
		test{"./broker/inflight", ".", ""},
	},
}
