package kafka_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/internal/longtest"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/kafka"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// spread publishes numbers to all partitions of a topic.
func spread(t testing.TB, b *kafka.Broker, topic string, from, to int) {
	t.Helper()
	messages := make([]*message.Message, 0, to-from)
	for n := from; n < to; n++ {
		m := message.NewMessage(fmt.Sprint(topic, n), []byte(strconv.Itoa(n)))
		m.Metadata.Set(envelope.HeaderTenantID, "acme")
		m.Metadata.Set(envelope.HeaderServiceCallID, fmt.Sprint("call-", n))
		messages = append(messages, m)
	}
	if err := broker.NewWatermillPublisher(b.Publisher()).Publish(topic, messages...); err != nil {
		t.Fatal(err)
	}
}

// handle subscribes to the commands and acks the next n.
func handle(t testing.TB, b *kafka.Broker, n int) message.Subscriber {
	t.Helper()
	messages, s := subscribe(t, b, b.Routing().Subscription())
	for range n {
		select {
		case m := <-messages:
			m.Ack()
		case <-time.After(time.Minute):
			t.Fatal("timed out waiting for commands")
		}
	}
	return s
}

// positions returns positions by the name of the log, without the id of its topic.
func positions(b *kafka.Broker) map[string]timer.Position {
	all := make(map[string]timer.Position)
	for _, p := range b.Positions("reader") {
		name, _, _ := strings.Cut(p.Log, "@")
		all[name] = timer.Position{Committed: p.Committed, Observed: p.Observed}
	}
	return all
}

// acked waits until all commands of a topic were acked and committed.
func acked(t testing.TB, b *kafka.Broker, topic string, n int64) {
	t.Helper()
	until(t, "a commit of the commands", func() bool {
		logs, err := b.Logs(t.Context(), "reader")
		if err != nil {
			t.Fatal(err)
		}
		sum := int64(0)
		for _, l := range logs {
			if strings.HasPrefix(l.Name, topic) {
				sum += l.Acked
			}
		}
		return sum == n
	})
}

// TestPositionsOfCommands leaves one command of many without an ack.
func TestPositionsOfCommands(t *testing.T) {
	t.Parallel()
	c, r := serve(t), routing()
	b := ready(t, kafka.Options{URL: c.url(), Routing: r, Partitions: 1})
	if got := b.Positions("reader"); len(got) > 0 {
		t.Errorf("before the first message: %v", got)
	}
	messages, _ := subscribe(t, b, r.Commands)
	publish(t, b, r.Commands, numbers(100)...)
	var left *message.Message
	for range 100 {
		m := <-messages
		number, err := strconv.ParseInt(strings.TrimPrefix(m.Metadata.Get(broker.MetaPosition), "0/"), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if p := positions(b)[r.Commands+"/0"]; p.Observed <= number || p.Committed > p.Observed {
			t.Errorf("offset %d was delivered, and the position is %+v", number, p)
		}
		if number == 90 {
			left = m
			continue
		}
		m.Ack()
	}
	for _, want := range []timer.Position{{Committed: 90, Observed: 100}, {Committed: 100, Observed: 100}} {
		until(t, fmt.Sprintf("%+v", want), func() bool { return positions(b)[r.Commands+"/0"] == want })
		left.Ack()
	}
	if got := b.Positions("another"); len(got) > 0 {
		t.Errorf("of another role: %v", got)
	}
}

// TestPositionsOfWhatWasPublished has events and dead letters of two tenants.
func TestPositionsOfWhatWasPublished(t *testing.T) {
	t.Parallel()
	c, r := serve(t), routing()
	b := ready(t, kafka.Options{URL: c.url(), Routing: r, Partitions: 3})
	for n, tenant := range []timer.TenantID{"acme", "umbra"} {
		spread(t, b, r.EventsOf(tenant), 0, 100*(n+1))
		spread(t, b, r.DeadLettersOf(tenant), 0, 10*(n+1))
	}
	spread(t, b, r.Commands, 0, 100)
	sums := make(map[string]int64)
	for name, p := range positions(b) {
		topic, _, _ := strings.Cut(name, "/")
		sums[topic] += p.Observed
		if p.Committed != 0 {
			t.Errorf("%s: %+v", name, p)
		}
	}
	want := map[string]int64{r.EventsOf("acme"): 100, r.EventsOf("umbra"): 200, r.DeadLettersOf("acme"): 10, r.DeadLettersOf("umbra"): 20}
	if diff := cmp.Diff(want, sums); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	before := positions(b)
	spread(t, b, r.EventsOf("acme"), 0, 1)
	raised := 0
	for name, p := range positions(b) {
		raised += int(p.Observed - before[name].Observed)
	}
	if raised != 1 {
		t.Errorf("one event raised the positions by %d", raised)
	}
}

// TestLogsOfCommands has partitions that are acked in part.
func TestLogsOfCommands(t *testing.T) {
	t.Parallel()
	for _, tenants := range []bool{false, true} {
		t.Run(fmt.Sprint("of tenants: ", tenants), func(t *testing.T) {
			t.Parallel()
			c, r := serve(t), routing()
			if tenants {
				r.Commands = strings.Replace(r.Commands, ".", ".{tenant}.", 1)
			}
			b := ready(t, kafka.Options{URL: c.url(), Routing: r, Partitions: 2})
			logs, err := b.Logs(t.Context(), "reader")
			if want := map[bool]int{false: 2, true: 0}[tenants]; err != nil || len(logs) != want {
				t.Errorf("at first there are %v, %v; want %d", logs, err, want)
			}
			for _, l := range logs {
				if l.Acked != 0 || l.Delivered != 0 || l.Pending != 0 || l.Last != 0 || !l.Oldest.IsZero() {
					t.Errorf("an empty log is %+v", l)
				}
			}
			topic := r.CommandsOf("acme")
			began := time.Now().Add(-time.Second)
			spread(t, b, topic, 0, 100)
			s := handle(t, b, 100)
			acked(t, b, topic, 100)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			spread(t, b, topic, 100, 150)
			logs, err = b.Logs(t.Context(), "reader")
			if err != nil || len(logs) != 2 {
				t.Fatalf("there are %v, %v", logs, err)
			}
			last := int64(0)
			for _, l := range logs {
				if last += l.Last; l.Delivered != l.Acked || l.Pending != 0 || l.Acked == 0 || l.Oldest.Before(began) || time.Since(l.Oldest) < 0 {
					t.Errorf("got %+v", l)
				}
			}
			if last != 150 {
				t.Errorf("the last numbers are %d together", last)
			}
			got := replay(t, b, broker.Commands)
			if diff := cmp.Diff(count(0, 100), merged(got, topic)); diff != "" {
				t.Errorf("replay (-want +got):\n%s", diff)
			}
		})
	}
}

// TestReplayEndsWhereNoRecordIs has logs that end with markers of transactions, whose
// TestReplayDoesNotWaitForEver has logs whose last record is not there. Kafka may have
// TestHistoryNeedsAConnection asks before there is one.
func TestHistoryNeedsAConnection(t *testing.T) {
	t.Parallel()
	b := kafka.New(kafka.Options{}, quiet)
	_, logs := b.Logs(t.Context(), "reader")
	_, used := b.Used(t.Context(), "reader")
	for name, err := range map[string]error{"Logs": logs, "Used": used, "Replay": broker.Replay(t.Context(), b, "reader", broker.Events, nil, nil)} {
		if !errors.Is(err, broker.ErrUnavailable) {
			t.Errorf("%s: %v, want ErrUnavailable", name, err)
		}
	}
}

// TestLogsOfATopicThatIsMadeAgainHaveOtherNames deletes commands and events, on the
// oldest servers that are taken, and on new ones.
func TestLogsOfATopicThatIsMadeAgainHaveOtherNames(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]kfake.Opt{"now": nil, "3.1": {kfake.MaxVersions(kversion.V3_1_0())}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, r := serve(t, opts...), routing()
			var names [2][]string
			for round := range names {
				b, stop := start(t, kafka.Options{URL: c.url(), Routing: r, Partitions: 1})
				publish(t, b, r.Commands, "command")
				publish(t, b, r.EventsOf("acme"), "event")
				handle(t, b, 1)
				acked(t, b, r.Commands, 1)
				for _, p := range b.Positions("reader") {
					names[round] = append(names[round], p.Log)
				}
				logs, err := b.Logs(t.Context(), "reader")
				if err != nil || len(logs) != 1 || len(names[round]) != 2 || !slices.Contains(names[round], logs[0].Name) {
					t.Errorf("logs %v, positions %v, %v", logs, names[round], err)
				}
				got := replay(t, b, broker.Events, b.Positions("reader")...)
				if len(got) != 0 {
					t.Errorf("behind the positions there is %v", got)
				}
				stop()
				for _, topic := range []string{r.Commands, r.EventsOf("acme")} {
					if err := c.DeleteTopic(topic); err != nil {
						t.Fatal(err)
					}
				}
			}
			for _, name := range names[0] {
				if slices.Contains(names[1], name) {
					t.Errorf("names before %v, after %v", names[0], names[1])
				}
			}
		})
	}
}

// TestServerThatIsTooOldEndsRun: a topic that was made again could not be told from the
// old one.
func TestServerThatIsTooOldEndsRun(t *testing.T) {
	t.Parallel()
	c := serve(t, kfake.MaxVersions(kversion.V3_0_0()))
	err := kafka.New(kafka.Options{URL: c.url()}, quiet).Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "older than Kafka 3.1") {
		t.Errorf("Run: %v", err)
	}
}

// TestUsedIsAboutOthers has a group with this process, and with others.
func TestUsedIsAboutOthers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name       string
		own, other string // instances
		between    bool   // whether it is used with the other one alone
	}{
		{name: "without names", between: true},
		{name: "with names", own: "one", other: "two", between: true},
		{name: "with our own", own: "one", other: "one", between: false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if test.own != "" && test.between {
				longtest.Skip(t, "waits for the session of a member that has a name")
			}
			c, r := serve(t), routing()
			member := func(instance string) (*kafka.Broker, message.Subscriber) {
				b := ready(t, kafka.Options{URL: c.url(), Routing: r, Instance: instance})
				_, s := subscribe(t, b, r.Commands)
				return b, s
			}
			used := func(b *kafka.Broker, want bool) {
				t.Helper()
				if got, err := b.Used(t.Context(), "reader"); err != nil || got != want {
					t.Errorf("it is used: %v, %v, want %v", got, err, want)
				}
			}
			stable := func(members int) {
				t.Helper()
				if _, err := c.WaitGroupStable(t.Context(), "reader."+r.Commands, members); err != nil {
					t.Fatal(err)
				}
			}
			b := ready(t, kafka.Options{URL: c.url(), Routing: r, Instance: test.own})
			used(b, false)
			_, s := member(test.other)
			stable(1)
			used(b, test.between)
			if test.own == test.other && test.own != "" {
				return
			}
			own, _ := subscribe(t, b, r.Commands)
			stable(2)
			used(b, true)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			admin := kadm.NewClient(client(t, c))
			if test.other != "" { // a member with a name does not leave
				if _, err := admin.LeaveGroup(t.Context(), kadm.LeaveGroup("reader."+r.Commands).InstanceIDs(test.other)); err != nil {
					t.Fatal(err)
				}
			}
			publish(t, b, r.Commands, numbers(100)...)
			for range 100 {
				(<-own).Ack() // of all partitions
			}
			until(t, "a group of our own", func() bool {
				got, err := b.Used(t.Context(), "reader")
				return err == nil && !got
			})
		})
	}
}
