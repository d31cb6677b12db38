package main

// firing are mutants of the way from the clock to the outbox.
var firing = []mutant{
	{
		"event outside the transaction", "a crash between mark and event loses the event",
		[]edit{{
			"poller/poller.go", "\t\treturn tx.Emit(ctx, events...)\n\t})\n",
			"\t\treturn nil\n\t})\n\tif err == nil {\n\t\terr = p.store.Update(ctx, func(tx timer.Tx) error { return tx.Emit(ctx, events...) })\n\t}\n",
		}},
		invariants,
	},
	{
		"a millisecond early, store", "what is due in a millisecond is taken now",
		[]edit{{"store/sqlite/query/due.sql", "AND due_at <= ?1", "AND due_at <= ?1 + 1"}},
		ownFile,
	},
	{
		"a millisecond early, poller", "what is due in a millisecond is reached now, and says otherwise",
		[]edit{{"poller/poller.go", "\tnow := p.now()\n\tvar events", "\tnow := p.now().Add(time.Millisecond)\n\tvar events"}},
		invariants,
	},
	{
		"clock rounded up", "a timer fires up to a millisecond early",
		[]edit{{"poller/poller.go", "return timer.RoundDown(p.clock.Now())", "return timer.RoundUp(p.clock.Now())"}},
		polling,
	},
	{
		"canceled fires", "Reach ignores the state: a CancelTimer loses the race silently",
		[]edit{
			{"store/sqlite/query/due.sql", "WHERE state = 'Scheduled' AND due_at", "WHERE state <> 'Reached' AND due_at"},
			{"store/sqlite/query/mark.sql", "SET state = 'Reached',", "SET canceled_at = NULL, state = 'Reached',"},
			{"store/sqlite/query/mark.sql", "WHERE state = 'Scheduled' AND rowid", "WHERE rowid"},
		},
		ownFile,
	},
	{
		"canceled fires, whole app", "the same, seen from outside",
		[]edit{
			{"store/sqlite/query/due.sql", "WHERE state = 'Scheduled' AND due_at", "WHERE state <> 'Reached' AND due_at"},
			{"store/sqlite/query/mark.sql", "SET state = 'Reached',", "SET canceled_at = NULL, state = 'Reached',"},
			{"store/sqlite/query/mark.sql", "WHERE state = 'Scheduled' AND rowid", "WHERE rowid"},
		},
		invariants,
	},
	{
		"no fair share", "a tenant with a million due timers delays all others",
		[]edit{{"store/sqlite/reach.go", "\tif crowded {", "\tif crowded && limit < 0 {"}},
		ownFile,
	},
	{
		"gate forgets", "a timer committed while the poller looks at the store is slept through",
		[]edit{{"poller/gate.go", "\tg.first = due\n", "\tif g.until.IsZero() {\n\t\treturn\n\t}\n\tg.first = due\n"}},
		polling,
	},
	{
		"sleep without a limit", "a clock that is set back prolongs the sleep of the poller",
		[]edit{{"poller/gate.go", "case <-last.C:", "case <-make(chan time.Time):"}},
		polling,
	},
	{
		"clock is always believed", "a clock that jumps fires timers hours early, for good",
		[]edit{{"poller/poller.go", "p.guard.hold(ctx, now); wait > 0 {", "p.guard.hold(ctx, now); wait > time.Hour {"}},
		polling,
	},
	{
		"clock jumps during a look", "a clock that jumps between the look at the store and the transaction fires timers early",
		[]edit{{"poller/poller.go", "if p.guard.jumped(now) {", "if p.guard.jumped(now) && now.IsZero() {"}},
		polling,
	},
	{
		"clock is believed at the start", "a clock that is wrong at the start fires timers early though the broker knows better",
		[]edit{{"poller/guard.go", "first := g.base.IsZero()", "first := false"}},
		polling,
	},
}

// wayOut are mutants of the way from the outbox to the broker.
var wayOut = []mutant{
	{
		"delete before publish", "a crash between the two loses the event",
		[]edit{{
			"outbox/session.go", "\tacked, failed, err := s.send(ctx, rows)\n",
			"\tfor _, row := range rows {\n\t\t_ = s.remove(ctx, []int64{row.Seq})\n\t}\n\tacked, failed, err := s.send(ctx, rows)\n",
		}},
		forwarding,
	},
	{
		"delete before publish, whole app", "the same, seen from outside",
		[]edit{{
			"outbox/session.go", "\tacked, failed, err := s.send(ctx, rows)\n",
			"\tfor _, row := range rows {\n\t\t_ = s.remove(ctx, []int64{row.Seq})\n\t}\n\tacked, failed, err := s.send(ctx, rows)\n",
		}},
		invariants,
	},
	{
		"publish error ignored", "an event that the broker did not take is deleted",
		[]edit{{"outbox/send.go", "\terr := s.pub.Publish(topic, messages...)", "\tvar err error\n\t_ = s.pub.Publish(topic, messages...)"}},
		forwarding,
	},
	{
		"publish error ignored, many topics", "the same, where all topics go out at once",
		[]edit{{"outbox/send.go", "\treturn pub.PublishTo(topics, messages)", "\t_ = pub.PublishTo(topics, messages)\n\treturn nil"}},
		forwarding,
	},
	{
		"claimed id believed", "whoever used the id of an event on another subject makes it disappear",
		[]edit{{"broker/nats/claim.go", "if p.subjectAt(ctx, s, c.sequence) == c.message.Subject {", "if p.subjectAt(ctx, s, c.sequence) != \"\" {"}},
		test{"./broker/nats", "^TestForeignMessageWithOurIDHidesNothing$", ""},
	},
	{
		"new id per attempt", "the broker takes a second attempt for another event",
		[]edit{{"outbox/send.go", "\t\tmessages[i] = row.Message\n", "\t\tmessages[i] = row.Message\n\t\trow.Message.UUID += s.clock.Now().String()\n"}},
		invariants,
	},
	{
		"id by the time of the attempt", "the event has another id when its transaction is done again",
		[]edit{{"envelope/id.go", "uint64(timer.RoundUp(e.DueAt).UnixMilli())<<16", "uint64(timer.RoundUp(e.ReachedAt).UnixMilli())<<16"}},
		test{"./envelope", "EventID|Attempt", ""},
	},
	{
		"id without the command", "two generations of a timer share an id: the broker drops the second",
		[]edit{{"envelope/id.go", "string(e.ServiceCallID), e.CommandID}", "string(e.ServiceCallID)}"}},
		test{"./envelope", "Generations", ""},
	},
	{
		"outbox numbers used again", "a delete that is repeated removes an event that came later",
		[]edit{{"store/sqlite/migrations/00001_timers.sql", "INTEGER PRIMARY KEY AUTOINCREMENT", "INTEGER PRIMARY KEY"}},
		ownFile,
	},
	{
		"rows read over a gap", "an event of a transaction that seemed to fail is passed over until the next pass",
		[]edit{{"store/sqlite/recent.go", "if begin < len(r.rows) && r.rows[begin].Seq == after+1 {", "if begin < len(r.rows) {"}},
		ownFile,
	},
	{
		"rows read as they were", "an event is published that was deleted, or parked",
		[]edit{{"store/sqlite/recent.go", "if len(r.rows) > 0 && r.rows[0].Seq <= last {", "if len(r.rows) > 0 && last < 0 {"}},
		ownFile,
	},
	{
		"rows without room forgotten", "events wait for the next pass when many are due",
		[]edit{{"store/sqlite/recent.go", "n < len(rows)\n", "false\n"}},
		ownFile,
	},
	{
		"new pass before the deletes", "what is being deleted is published again, though nothing failed",
		[]edit{{"outbox/session.go", "\t\ts.deleted() // else the new pass would publish again what is being deleted\n", ""}},
		forwarding,
	},
	{
		"topic that failed goes on", "what failed is overtaken by what comes after it",
		[]edit{{"outbox/session.go", "s.aside.add(slices.Values(failed))", "s.aside.add(slices.Values(failed[:0]))"}},
		forwarding,
	},
	{
		"topic comes back in the middle", "the same, when it is well again",
		[]edit{{"outbox/aside.go", "\ta.topics[t.topic] = failed\n\tif t.failed == nil {\n\t\ta.topics[t.topic] = well\n\t}\n", "\tdelete(a.topics, t.topic)\n"}},
		forwarding,
	},
	{
		"try goes on behind a failure", "the same, behind an event that is refused",
		[]edit{{"outbox/send.go", "i < len(rows) && t.failed == nil", "i < len(rows)"}},
		forwarding,
	},
	{
		"every look from the oldest", "what is being deleted is published again, though nothing failed",
		[]edit{{"outbox/session.go", "after = rows[len(rows)-1].Seq", "after = 0"}},
		forwarding,
	},
	{
		"nobody tells the forwarder", "an event waits for the next look at the outbox",
		[]edit{{"app/app.go", "\t\t\ta.forwarder.Appended(len(events))\n", ""}},
		bubbles,
	},
	{
		"the brake does not hold", "a full way out is filled further",
		[]edit{{"poller/poller.go", "p.brake.hold(ctx, now); wait > 0 {", "p.brake.hold(ctx, now); wait > time.Hour {"}},
		polling,
	},
	{
		"nobody asks the forwarder", "the events of a great tenant fill the outbox before those of others",
		[]edit{{"app/app.go", "a.forwarder.Waiting() >= room", "a.forwarder.Waiting() < -room"}},
		test{"./app", "^TestSlowBrokerGathersNoCrowd$", ""},
	},
	{
		"rows that vanish wait", "rows that somebody deleted hold firing for ever",
		[]edit{{"outbox/backlog.go", "\t\tb.seen = told\n", ""}},
		forwarding,
	},
	{
		"rows left behind wait", "a topic that fails holds the firing of all",
		[]edit{{"outbox/backlog.go", "if row.Seq > b.newest {", "if row.Seq > b.newest && row.Attempts < 0 {"}},
		forwarding,
	},
}
