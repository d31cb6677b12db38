package watermill_test

import (
	"log/slog"
	"os"
	"testing"
	"time"

	wm "github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/brokertest"
	"github.com/event-service-agent/timer-service/broker/watermill"
	"github.com/event-service-agent/timer-service/internal/longtest"
)

func TestMain(m *testing.M) { os.Exit(longtest.Waiting(m)) }

var quiet = slog.New(slog.DiscardHandler)

// Not in a bubble of testing/synctest: GoChannel holds a mutex while it waits for
// acks, which no bubble can wait for.
var channelFeatures = brokertest.Features{Lacks: lacks(map[string]string{
	"Every role gets every message, instances of a role share them":       "every subscription gets every message",
	"Canceling Subscribe ends the intake; what is in flight can be acked": "what is published while a role has no subscription is lost",
	"A tail sees what comes later, and acks mean nothing to it":           "messages come in no order",
})}

// lacks returns what no pair of Watermill's promises, and more.
func lacks(more map[string]string) map[string]string {
	for _, visit := range []string{
		"A visit sees the dead letters of its tenant, oldest first, as they were",
		"A visit removes for good what its function says, and only that",
		"A dead letter that comes during a visit is for the next one",
		"An error of a visit ends it, and so does its context; the rest stays",
		"A visit sees the dead letters of all tenants, or asks for one",
		"A visit sees hostile dead letters, and can remove them",
		"A visit sees many dead letters",
		"A visit begins with a dead letter that was found before, or behind it",
	} {
		more[visit] = "a subscriber can't list or remove messages"
	}
	for _, owner := range []string{
		"The first to claim the commands of a role owns them, and another one learns who",
		"Of many that claim at once, one owns the commands",
		"A takeover makes another one the owner",
		"The owner outlives connections and restarts",
	} {
		more[owner] = "a pair keeps nothing but messages"
	}
	for _, catchUp := range []string{
		"CatchUp returns when the backlog was delivered and acked, at once if nothing waits",
		"CatchUp does not wait for what is published later",
		"CatchUp does not wait for messages that wait for their retry",
		"CatchUp of processes that share a role waits for the backlog of each",
		"CatchUp does not wait for what a process had that died",
		"CatchUp ends with its context",
		"An interruption is counted, however short, and CatchUp works after it",
	} {
		more[catchUp] = "a subscriber can't say what waits"
	}
	return more
}

// openChannel makes a broker of Watermill's GoChannel.
func openChannel(t testing.TB) brokertest.Server {
	pair := gochannel.NewGoChannel(gochannel.Config{}, wm.NopLogger{})
	t.Cleanup(func() { _ = pair.Close() })
	sub := func(string) (message.Subscriber, error) { return pair, nil }
	b := watermill.New(pair, sub, watermill.Options{
		MaxDelay:         2 * time.Hour, // it waits for an ack for ever
		SubscribeTimeout: time.Minute,   // it loses messages that are published before
		Tail:             func() (message.Subscriber, error) { return pair, nil },
	}, quiet)
	return brokertest.Server{Broker: func() broker.Broker { return b }}
}

func TestGoChannel(t *testing.T) { brokertest.Run(t, channelFeatures, openChannel) }
