package kafka_test

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/brokertest"
)

// begin begins a transaction with records.
func begin(t *testing.T, producer *kgo.Client, topic string, bodies ...string) {
	t.Helper()
	must(t, producer.BeginTransaction())
	for _, body := range bodies {
		must(t, producer.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte(body)}).FirstErr())
	}
}

// TestOnlyWhatIsCommittedCounts aborts a transaction, and leaves one open while messages of
// others are delivered, caught up with and replayed.
func TestOnlyWhatIsCommittedCounts(t *testing.T) {
	t.Parallel()
	c := serve(t)
	opt := c.options()
	opt.Partitions = 1
	commands := opt.Routing.Commands
	b := ready(t, opt)
	messages, err := b.Subscriber("timer-service").Subscribe(t.Context(), commands)
	must(t, err)
	tailed, err := b.Tail().Subscribe(t.Context(), commands)
	must(t, err)
	caughtUp := func(when string) {
		t.Helper()
		if err := b.CatchUp(t.Context(), "timer-service"); err != nil {
			t.Errorf("CatchUp %s: %v", when, err)
		}
		until(t, "nothing is unread "+when, func() bool {
			logs, err := b.Logs(t.Context(), "timer-service")
			return err == nil && len(logs) > 0 && logs[0].Floor == logs[0].Last
		})
	}
	p, q := client(t, c, kgo.TransactionalID(commands+"-first")), client(t, c, kgo.TransactionalID(commands+"-second"))
	begin(t, p, commands, "aborted-1", "aborted-2")
	must(t, p.EndTransaction(t.Context(), kgo.TryAbort))
	begin(t, q, commands, "committed")
	must(t, q.EndTransaction(t.Context(), kgo.TryCommit))
	expect(t, messages, "committed")
	expect(t, tailed, "committed")
	begin(t, p, commands, "aborted-3")
	must(t, p.EndTransaction(t.Context(), kgo.TryAbort))
	caughtUp("behind aborted records")

	begin(t, p, commands, "open")
	publish(t, b, commands, "behind it")
	caughtUp("while a transaction is open")
	var got []string
	if err := brokertest.Read(t.Context(), b, "timer-service", broker.Commands, nil, func(batch []broker.Stored) error {
		for _, m := range batch {
			got = append(got, string(m.Message.Payload))
		}
		return nil
	}); err != nil || !slices.Equal(got, []string{"committed"}) {
		t.Errorf("replayed %v, %v, want only committed ones", got, err)
	}
	must(t, p.EndTransaction(t.Context(), kgo.TryCommit))
	for _, body := range []string{"open", "behind it"} {
		expect(t, messages, body)
		expect(t, tailed, body)
	}
	caughtUp("at the end")
}
