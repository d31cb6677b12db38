// Package brokertest is the contract of [broker.Broker] as tests. A driver is
// finished when [Run] and [Watermill] pass; [Bench] says how fast it is. The
// list of cases is the specification.
package brokertest

import (
	"testing"
	"testing/synctest"

	"github.com/event-service-agent/timer-service/broker"
)

// Features say what a driver can do beyond the contract.
type Features struct {
	Durable    bool // what is published outlives brokers
	Replays    bool // roles that come later get it too, else a role gets what is published once it is known: see [message.SubscribeInitializer]
	Reorders   bool // what is given back comes behind what came meanwhile, in any order
	Repeats    bool // the newest message may come once more though it was acked, after others were given back
	Positions  bool // messages have places, which grow
	Dedupes    bool // two messages with one UUID are one
	Wildcards  bool // [broker.Routing.Wildcard] may be subscribed to
	Offers     bool // subscribers are of type [broker.Offerer]
	AllTenants bool // dead letters of all tenants can be visited at once, else a visit must name one
	FakeTime   bool // server and broker run in a bubble of testing/synctest
	MaxBytes   int  // a body of this size is refused; 0 if none is
}

// A Server is what the brokers of one test connect with.
type Server struct {
	// Broker returns a new broker, which is not run yet. Without
	// [Features.Durable] there is one broker only, and this returns it.
	Broker func() broker.Broker

	// Stop and Start stop the server and start it again where it was. They are
	// nil if that can't be done.
	Stop, Start func()
}

// Open starts a server for a test, with topics that no other test uses, and
// stops it when the test ends. It may be called in a bubble.
type Open func(t testing.TB) Server

// Run runs the contract as subtests.
func Run(t *testing.T, f Features, open Open) {
	for _, test := range []struct {
		promise string
		timed   bool // takes its time: in a bubble, if the driver permits
		needs   bool
		test    func(*world)
	}{
		{"What is published arrives as it was, with where it came from", false, true, arrives},
		{"Publish of nothing, and Close of the publisher, do nothing", false, true, nothing},
		{"Messages of a key come one after the other, in order, thousands at once", false, true, ordered},
		{"A producer without headers keeps the order of its keys", false, true, orderedByBody},
		{"Messages of other keys, and those without, wait for nobody", false, true, independent},
		{"Every role gets every message, instances of a role share them", false, true, roles},
		{"Many topics at once do not mix", false, true, manyTopics},
		{"The context of a message carries values and ends with its ack", false, true, contexts},
		{"A tail sees what comes later, and acks mean nothing to it", false, true, tails},
		{"Run and Subscribe end without a leftover", false, true, ends},
		{"Canceling Subscribe ends the intake; what is in flight can be acked", true, true, cancels},

		{"A nacked message comes back after 1 s, 5 s, 25 s, 25 s, for ever", true, f.FakeTime, nackDelays},
		{"A nack never loops hot", true, true, nackCalm},
		{"A nacked message gives way to others of its key", true, true, nackGivesWay},
		{"While the store is down a message comes at most five times a minute, and none is lost", true, true, storeDown},
		{"A message that takes minutes is delivered once, until nobody works on it", true, f.FakeTime, slowHandler},

		{"Of offers, those that are taken are not delivered unless passed on", true, f.Offers, offersMeet},
		{"An offer can be acked after the intake; passed on it is handed back", true, f.Offers, offersEnd},
		{"An offer may take minutes", true, f.Offers && f.FakeTime, offersTakeTime},

		{"The headers of an event arrive unchanged, and no others", false, true, headersArrive},
		{"Of the headers of a command correlation and trace are read, and no others", false, true, commandHeaders},
		{"Headers that are commands to a broker move nothing", false, true, fenced},

		{"Hostile messages stop no good ones", false, true, hostile},
		{"A topic that can't be one is refused and breaks nothing", false, true, hostileTopics},
		{"What is too large is refused", false, f.MaxBytes > 0, tooLarge},
		{"Of two messages with one id, one is kept", false, f.Dedupes, dedupes},
		{"A dead letter with an id of its own is kept beside its original", false, true, deadLetters},
		{"A wildcard subscribes to the topics of all tenants", false, f.Wildcards, wildcards},

		{"A visit sees the dead letters of its tenant, oldest first, as they were", false, true, visitsInOrder},
		{"A visit removes for good what it is told to, and only that", false, true, visitRemoves},
		{"A dead letter that comes during a visit is for the next one", false, true, visitEnds},
		{"An error of a visit ends it, and so does its context; the rest stays", false, true, visitFails},
		{"A visit sees the dead letters of all tenants, or asks for one; and of no wrong one", false, true, visitAll},
		{"A visit sees hostile dead letters, and can remove them", false, true, visitHostile},
		{"A visit sees a thousand dead letters", false, true, visitMany},

		{"A role that comes late gets what the broker kept", false, f.Replays, lateRole},
		{"A role goes on after what it acked", true, f.Durable, resumes},
		{"Close with messages in flight loses none", true, f.Durable, closes},
		{"Many subscribers that come and go lose none", false, f.Durable, comeAndGo},
	} {
		t.Run(test.promise, func(t *testing.T) {
			if !test.needs {
				t.Skip("not a feature of this driver")
			}
			if test.timed && f.FakeTime {
				synctest.Test(t, func(t *testing.T) { test.test(newWorld(t, f, open, true)) })
				return
			}
			t.Parallel()
			test.test(newWorld(t, f, open, false))
		})
	}
	outages(t, f, open)
}

// outages runs the part of the contract that needs a server which can be
// stopped.
func outages(t *testing.T, f Features, open Open) {
	for _, test := range []struct {
		promise string
		test    func(*world)
	}{
		{"A server that restarts under load loses nothing", restarts},
		{"Publish fails while the server is down, and works when it is back", down},
		{"Subscribe before the server is up waits for it", early},
	} {
		t.Run(test.promise, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, f, open, false)
			if w.server.Stop == nil {
				t.Skip("the server of this test can't be stopped")
			}
			test.test(w)
		})
	}
}
