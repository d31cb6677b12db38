package kafka_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/brokertest"
	"github.com/event-service-agent/timer-service/broker/kafka"
)

// A transactionalProducer is a producer that sends its records in transactions.
type transactionalProducer struct {
	*kgo.Client
	t *testing.T
}

func newTransactional(t *testing.T, c *cluster, id string) *transactionalProducer {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(c.url(), ",")...), kgo.TransactionalID(id))
	must(t, err)
	t.Cleanup(client.Close)
	return &transactionalProducer{client, t}
}

// begin begins a transaction with records.
func (p *transactionalProducer) begin(topic string, bodies ...string) {
	p.t.Helper()
	must(p.t, p.BeginTransaction())
	for _, body := range bodies {
		must(p.t, p.ProduceSync(p.t.Context(), &kgo.Record{Topic: topic, Value: []byte(body)}).FirstErr())
	}
}

// end commits the transaction or aborts it.
func (p *transactionalProducer) end(commit kgo.TransactionEndTry) {
	p.t.Helper()
	must(p.t, p.EndTransaction(p.t.Context(), commit))
}

// TestOnlyWhatIsCommittedCounts aborts a transaction, and leaves one open while messages of
// others are delivered, caught up with and replayed.
func TestOnlyWhatIsCommittedCounts(t *testing.T) {
	t.Parallel()
	c, r := serve(t), routing()
	commands := r.Commands
	b := ready(t, kafka.Options{URL: c.url(), Routing: r, Partitions: 1})
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
	p, q := newTransactional(t, c, commands+"-first"), newTransactional(t, c, commands+"-second")
	p.begin(commands, "aborted-1", "aborted-2")
	p.end(kgo.TryAbort)
	q.begin(commands, "committed")
	q.end(kgo.TryCommit)
	expect(t, messages, "committed")
	expect(t, tailed, "committed")
	p.begin(commands, "aborted-3")
	p.end(kgo.TryAbort)
	caughtUp("behind aborted records")

	p.begin(commands, "open")
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
	p.end(kgo.TryCommit)
	for _, body := range []string{"open", "behind it"} {
		expect(t, messages, body)
		expect(t, tailed, body)
	}
	caughtUp("at the end")
}
