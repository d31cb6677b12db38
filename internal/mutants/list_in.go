package main

// wayIn are mutants of the way from the broker to the store.
var wayIn = []mutant{
	{
		"ack before commit, together", "a crash before the commit loses timers that were acked",
		[]edit{
			{
				"handlers/bulk.go", "\t\toutcomes, err := part.apply(part.batch)",
				"\t\tfor _, c := range part.batch {\n\t\t\tc.offer.Ack()\n\t\t}\n\t\toutcomes, err := part.apply(part.batch)",
			},
			{"handlers/bulk.go", "\t\t\t\tc.offer.Pass()\n", "\t\t\t\t_ = c\n"},
			{"handlers/bulk.go", "\t\t\tfailpoint.Here(\"handled\")\n\t\t\tc.offer.Ack()\n", "\t\t\tfailpoint.Here(\"handled\")\n"},
		},
		invariants,
	},
	{
		"offer acked without an ack", "a command that was stored comes again, for ever",
		[]edit{{"broker/nats/delivery.go", "d.to.told(d.ack())", "d.to.told(nil)"}},
		offering,
	},
	{
		"offer forgotten at the end", "a command that was passed on after the intake comes again after half a minute only",
		[]edit{{"broker/nats/delivery.go", "d.to.told(d.nak(0))", "d.to.told(nil)"}},
		offering,
	},
	{
		"offer not noted as taken", "a command is handed to others while it is being stored",
		[]edit{{"broker/nats/subscription.go", "	s.mark(d, true)\n	if s.taker(d)", "	if s.taker(d)"}},
		offering,
	},
	{
		"bulk forgets what failed", "a command whose transaction failed is neither acked nor tried again",
		[]edit{{"handlers/bulk.go", "\t\t\t\tc.offer.Pass()\n", "\t\t\t\t_ = c\n"}},
		intake,
	},
	{
		"ack before commit", "a crash before the commit loses a timer that was acked",
		[]edit{{"handlers/decode.go", "\td := deliveryOf(msg)\n\tvar outcome", "\td := deliveryOf(msg)\n\tmsg.Ack()\n\tvar outcome"}},
		intake,
	},
	{
		"outage is poison", "a busy database makes dead letters of healthy commands",
		[]edit{{"handlers/middleware.go", "{ return errors.Is(err, timer.ErrInvalid) }", "{ return err != nil }"}},
		intake,
	},
	{
		"outage is poison, whole app", "the same, seen from outside",
		[]edit{{"handlers/middleware.go", "{ return errors.Is(err, timer.ErrInvalid) }", "{ return err != nil }"}},
		invariants,
	},
	{
		"intake goes on in an outage", "while the store is down every command is delivered again and again",
		[]edit{{"handlers/middleware.go", "if !h.hold.wait(h.stopping) {", "if false && !h.hold.wait(h.stopping) {"}},
		intake,
	},
	{
		"dead letter after ack", "a crash between the two loses the only trace of an invalid command",
		[]edit{{"handlers/deadletter.go", "for _, original := range messages {", "for _, original := range messages {\n\t\toriginal.Ack()"}},
		intake,
	},
	{
		"dead letter after ack, whole app", "the same, seen from outside",
		[]edit{{"handlers/deadletter.go", "for _, original := range messages {", "for _, original := range messages {\n\t\toriginal.Ack()"}},
		invariants,
	},
	{
		"dead letter error ignored", "an invalid command is acked though its dead letter was not published",
		[]edit{{"handlers/deadletter.go", "\t\tif err != nil {\n\t\t\treturn fmt.Errorf(\"publish dead letter", "\t\tif err != nil && topic == \"\" {\n\t\t\treturn fmt.Errorf(\"publish dead letter"}},
		intake,
	},
	{
		"dead letter keeps its id", "the broker drops the dead letter as a duplicate of its original",
		[]edit{{"handlers/deadletter.go", "message.NewMessage(letterID(topic, original), original.Payload)", "message.NewMessage(original.UUID, original.Payload)"}},
		intake,
	},
	{
		"dead letter by the body", "a tenant fills the dead letters of another one",
		[]edit{{"handlers/deadletter.go", "; named {", "; named && tenant == timer.NoTenant {"}},
		intake,
	},
	{
		"bulk ends with the stop", "a stop tears transactions apart that are at work",
		[]edit{{"handlers/bulk.go", "b.h.schedule(b.h.working,", "b.h.schedule(b.h.stopping,"}},
		intake,
	},
	{
		"handlers end with the stop", "a stop tears transactions apart that are tried again",
		[]edit{{"handlers/middleware.go", "work{Context: h.working,", "work{Context: h.stopping,"}},
		intake,
	},
	{
		"nobody tells the poller", "a sooner timer waits for the next poll",
		[]edit{{"handlers/schedule.go", "h.opt.Scheduled(first)", "_ = first"}},
		bubbles,
	},
	{
		"nack without delay, nats", "a command that fails comes back thousands of times a second",
		[]edit{{"broker/nats/subscription.go", "d.nak(broker.RedeliveryDelay(d.number))", "d.nak(0)"}},
		test{"./broker/nats", "^TestContractInProcess$/.*[Nn]ack", ""},
	},
	{
		"nack without delay, gochannel", "a command that fails comes back thousands of times a second",
		[]edit{{"broker/gochannel/group.go", "time.NewTimer(broker.RedeliveryDelay(delivery))", "time.NewTimer(0 * broker.RedeliveryDelay(delivery))"}},
		test{"./broker/gochannel", "^TestContract$/.*[Nn]ack", ""},
	},
}
