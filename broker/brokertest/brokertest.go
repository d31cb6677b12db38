// Package brokertest is the contract of [broker.Broker] as tests. A driver is
// finished when [Run] and [Watermill] pass; [Bench] says how fast it is. The
// list of cases is the specification.
package brokertest

import (
	"maps"
	"testing"
	"testing/synctest"

	"github.com/event-service-agent/timer-service/broker"
)

// Features are the abilities of a driver beyond the contract.
type Features struct {
	Durable    bool // messages outlive brokers
	Replays    bool // a role that comes later gets earlier messages, too; otherwise it gets messages once it is known: see [message.SubscribeInitializer]
	Reorders   bool // a dead letter that a visit leaves comes behind dead letters that came meanwhile
	LosesAcks  bool // an ack that is sent right before its channel is closed may be lost
	Repeats    bool // the newest message may come once more though it was acked, after others were returned
	Positions  bool // messages have positions, which grow within a partition
	Dedupes    bool // two messages with one UUID are one
	Uncounted  bool // a delivery that ended without ack or nack is not counted
	Wildcards  bool // [broker.Routing.Wildcard] may be subscribed to
	AllTenants bool // dead letters of all tenants can be visited at once, otherwise a visit must name one
	History    bool // messages are kept after their ack: see [broker.History]
	Commits    bool // the acks of a log are one number, written now and then: [broker.Log].Delivered is Acked, a moment later
	FakeTime   bool // server and broker run in a bubble of testing/synctest
	MaxBytes   int  // a body of this size is refused; 0 if none is

	// Lacks names promises of the contract that do not hold, each with the reason.
	// It is for brokers that are not ours: see broker/watermill.
	Lacks map[string]string
}

// A Server is the server that the brokers of one test connect with.
type Server struct {
	// Broker returns a new broker, which is not run yet. Without
	// [Features.Durable] there is one broker only, and this returns it.
	Broker func() broker.Broker

	// Stop and Start stop the server and start it again where it was. They are
	// nil if that can't be done.
	Stop, Start func()

	// Purge removes the messages of a log below a number, as a broker removes messages
	// that are too old. Delete removes all logs, while no broker runs; the next broker
	// makes them again. They are nil if that can't be done.
	Purge  func(log string, below int64)
	Delete func()

	// Fail lets publishing to one topic fail until restore is called, while other
	// topics work. It is nil if that can't be done.
	Fail func(topic string) (restore func())
}

// Open starts a server for a test, with topics that no other test uses, and
// stops it when the test ends. It may be called in a bubble.
type Open func(t testing.TB) Server

// Run runs the contract as subtests. With -short they publish fewer messages.
func Run(t *testing.T, f Features, open Open) {
	lacks := maps.Clone(f.Lacks)
	promises(t, f, open, lacks, true, true)
	outages(t, f, open, lacks)
	for promise := range lacks {
		t.Errorf("Lacks names %q, which is no promise", promise)
	}
}

// Timed runs the cases that are about time, for a driver that runs the others on another
// server.
func Timed(t *testing.T, f Features, open Open) {
	promises(t, f, open, maps.Clone(f.Lacks), true, false)
}

// Untimed runs the cases that are neither about time nor about a server that is stopped.
func Untimed(t *testing.T, f Features, open Open) {
	promises(t, f, open, maps.Clone(f.Lacks), false, true)
}

// Outages runs the cases that need a server that can be stopped.
func Outages(t *testing.T, f Features, open Open) { outages(t, f, open, maps.Clone(f.Lacks)) }

// promises runs the cases that need no server that can be stopped: the cases about time,
// the others, or both.
func promises(t *testing.T, f Features, open Open, lacks map[string]string, timed, others bool) {
	for _, test := range []struct {
		promise string
		timed   bool // takes its time: in a bubble, if the driver permits
		needs   bool
		test    func(*world)
	}{
		{"What is published arrives as it was, with where it came from", false, true, arrives},
		{"No message waits for another one, whatever its key", false, true, independent},
		{"In any order of arrival, with repeats and nacks, the newest version of each key wins", true, true, anyOrder},
		{"Messages of a key go to one partition, in the order of publishing", false, f.Positions, samePartition},
		{"Every role gets every message, instances of a role share them", false, true, roles},
		{"Many topics at once do not mix", false, true, manyTopics},
		{"The context of a message carries values and ends with its ack", false, true, contexts},
		{tailPromise, false, true, tails},
		{"Run and Subscribe end without a leftover", false, true, ends},
		{"Canceling Subscribe ends the intake; what is in flight can be acked", true, true, cancels},

		{"A message that is refused changes no other result", false, true, refusedAlone},
		{"A topic that fails for now changes no result of another", true, true, failingAlone},
		{"Publish returns a result for each message when its context ends", false, true, settles},
		{"Every result is ErrUnavailable before Run has connected, and after it", false, true, unavailable},

		{"A nacked message is delivered again after 1 s, 5 s, 25 s, 25 s, for ever", true, f.FakeTime, retryDelays},
		{"A nacked message comes again after about a second, counted", true, true, retriesOnce},
		{retryPromise, true, true, waitingRetries},
		{"A message that waits for its retry goes to another process when its own stops", true, f.Durable, retriesElsewhere},
		{"A message that takes minutes is delivered once while its subscriber lives", true, f.FakeTime, slowHandler},

		{"The headers of an event arrive unchanged, and no others", false, true, headersArrive},

		{"Hostile messages stop no good ones", false, true, hostile},
		{"A topic that can't be one is refused and breaks nothing", false, true, hostileTopics},
		{"Of two messages with one id, one is kept", false, f.Dedupes, dedupes},
		{"A wildcard subscribes to the topics of all tenants", false, f.Wildcards, wildcards},

		{"A visit sees the dead letters of its tenant, oldest first, as they were", false, true, visitsInOrder},
		{"A visit removes for good what its function says, and only that", false, true, visitRemoves},
		{"A visit begins with a dead letter that was found before, or behind it", false, true, visitBegins},
		{"A dead letter that comes during a visit is for the next one", false, true, visitEnds},
		{"An error of a visit ends it, and so does its context; the rest stays", false, true, visitFails},
		{"A visit sees the dead letters of all tenants, or asks for one", false, true, visitAll},
		{"A visit sees hostile dead letters, and can remove them", false, true, visitHostile},
		{"A visit sees many dead letters", false, true, visitMany},

		{"The first to claim the commands of a role owns them, and another one learns who", true, true, claims},
		{"Of many that claim at once, one owns the commands", true, true, claimsAtOnce},
		{"A takeover makes another one the owner", true, true, takesOver},
		{"The owner outlives connections and restarts", false, f.Durable, ownerStays},
		{"CatchUp returns when the backlog was delivered and acked, at once if nothing waits", false, true, catchesUp},
		{"CatchUp does not wait for what is published later", false, true, catchesUpUnderLoad},
		{"CatchUp does not wait for messages that wait for their retry", false, !f.History, catchesUpBesideRetries},
		{"CatchUp of processes that share a role waits for the backlog of each", false, f.Durable, catchesUpWithOthers},
		{"CatchUp does not wait for what a process had that died", false, f.Durable && !f.History, catchesUpAfterADeath},
		{"CatchUp ends with its context", false, true, catchUpEnds},

		{"A broker that keeps no history says so", false, !f.History, withoutHistory},
		{"The floor of the commands reaches the last one that was handled, and then the end", true, f.History, floorFollows},
		{"A message that is not acked holds back the floor", true, f.History, floorHeld},
		{"The floor of what is published is the end", false, f.History, floorPublished},
		{"Logs say what was delivered, acked and stored", true, f.History && !f.Commits, describesLogs},
		{"Replay visits the commands that were delivered, behind a position, in order", false, f.History, replaysCommands},
		{"Replay visits commands up to the last one delivered, acked or not", false, f.History && !f.Commits, replaysUnacked},
		{"Replay visits the events and dead letters of all tenants, behind a position", false, f.History, replaysTenants},
		{"Replay visits thousands in several batches", false, f.History, replaysBatches},
		{"Replay visits what is left of a log that was purged", false, f.History, replaysPurged},
		{"An error of visit ends Replay, and so does its context", false, f.History, replayEnds},
		{"A log that was deleted and made again has another name", false, f.History && f.Durable, renamesLog},
		{"Used tells of another process that takes commands", false, f.History && f.Durable, usedByAnother},
		{"A role that comes late gets what the broker kept", false, f.Replays, lateRole},
		{"A role goes on after what it acked", true, f.Durable, resumes},
		{"Close with messages in flight loses none", true, f.Durable, closes},
		{"Many subscribers that come and go lose none", false, f.Durable, comeAndGo},
	} {
		delete(lacks, test.promise)
		if test.timed && !timed || !test.timed && !others {
			continue
		}
		t.Run(test.promise, func(t *testing.T) {
			if !test.needs {
				t.Skip("not a feature of this driver")
			}
			if reason, lacks := f.Lacks[test.promise]; lacks {
				t.Skip("not promised: " + reason)
			}
			if test.timed && f.FakeTime {
				synctest.Test(t, func(t *testing.T) { test.test(newWorld(t, f, open, true)) })
				return
			}
			t.Parallel()
			test.test(newWorld(t, f, open, false))
		})
	}
}

func outages(t *testing.T, f Features, open Open, lacks map[string]string) {
	for _, test := range []struct {
		promise string
		test    func(*world)
	}{
		{"A server that restarts under load loses nothing", restarts},
		{"Publish fails while the server is down, and works when it is back", down},
		{"Subscribe before the server is up waits for it", early},
		{"Replay goes on after the server was away", replaysThroughOutage},
		{"A log keeps its name when the server restarts", keepsName},
		{"An interruption is counted, however short, and CatchUp works after it", interrupts},
	} {
		delete(lacks, test.promise)
		t.Run(test.promise, func(t *testing.T) {
			t.Parallel()
			if reason, lacks := f.Lacks[test.promise]; lacks {
				t.Skip("not promised: " + reason)
			}
			w := newWorld(t, f, open, false)
			if w.server.Stop == nil {
				t.Skip("the server of this test can't be stopped")
			}
			test.test(w)
		})
	}
}
