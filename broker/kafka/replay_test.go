package kafka_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/brokertest"
	"github.com/event-service-agent/timer-service/broker/kafka"
)

// replay returns the bodies of a replay by the name of the log, without the id of its
// topic.
func replay(t testing.TB, b *kafka.Broker, kind broker.Kind) map[string][]string {
	t.Helper()
	got := make(map[string][]string)
	last := make(map[string]int64)
	must(t, brokertest.Read(t.Context(), b, "reader", kind, nil, func(batch []broker.Stored) error {
		if len(batch) == 0 || len(batch) > 2000 {
			t.Errorf("a batch of %d", len(batch))
		}
		for _, s := range batch {
			if s.Number <= last[s.Log] {
				t.Errorf("%s: number %d after %d", s.Log, s.Number, last[s.Log])
			}
			if age := time.Since(s.At); age < -time.Minute || age > time.Hour {
				t.Errorf("%s: stored at %v", s.Log, s.At)
			}
			last[s.Log] = s.Number
			topic, number := logOf(s.Log)
			m := s.Message.Metadata
			if m[broker.MetaTopic] != topic || m[broker.MetaPosition] != fmt.Sprint(number, "/", s.Number-1) || m[broker.MetaDelivery] != "" {
				t.Errorf("%s: metadata %v", s.Log, m)
			}
			name, _, _ := strings.Cut(s.Log, "@")
			got[name] = append(got[name], string(s.Message.Payload))
		}
		return nil
	}))
	return got
}

// merged returns the bodies of a topic, in the order of their numbers.
func merged(got map[string][]string, topic string) (numbers []int) {
	for name, bodies := range got {
		if strings.HasPrefix(name, topic+"/") {
			for _, body := range bodies {
				n, err := strconv.Atoi(body)
				if err != nil {
					n = -1
				}
				numbers = append(numbers, n)
			}
		}
	}
	slices.Sort(numbers)
	return numbers
}

func count(from, to int) (numbers []int) {
	for n := from; n < to; n++ {
		numbers = append(numbers, n)
	}
	return numbers
}

// TestReplayEndsWhereNoRecordIs has a log that holds nothing any more, and one of which records
// were compacted away.
func TestReplayEndsWhereNoRecordIs(t *testing.T) {
	t.Parallel()
	c := fake(t)
	b := ready(t, c.options())
	gone, of := b.Routing().EventsOf("gone"), b.Routing().DeadLettersOf("acme")
	one(t, c, gone)
	publish(t, b, gone, numbers(10)...)
	must(t, c.DeleteRecords(gone, 0, 10))
	if got := replay(t, b, broker.Events); len(got) > 0 {
		t.Errorf("replayed %v", got)
	}
	must(t, c.CreateTopic(of, 1, map[string]string{"cleanup.policy": "compact", "delete.retention.ms": "0"}))
	publish(t, b, of, "first", "second")
	letters(t, b, "acme", only("second"))
	publish(t, b, of, "third", "fourth")
	c.Compact()
	if diff := cmp.Diff(map[string][]string{of + "/0": {"first", "third", "fourth"}}, replay(t, b, broker.DeadLetter)); diff != "" {
		t.Errorf("compacted (-want +got):\n%s", diff)
	}
}

// TestReplayDoesNotWaitForEver has logs whose last record is not there. Kafka may have
// compacted the last dead letters away. A missing event is an error.
func TestReplayDoesNotWaitForEver(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster, opt kafka.Options) {
		opt.Partitions = 1
		b := ready(t, opt)
		publish(t, b, b.Routing().EventsOf("acme"), "0")
		publish(t, b, b.Routing().DeadLettersOf("acme"), "0")
		c.ControlKey(int16(kmsg.ListOffsets), func(r kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()
			req := r.(*kmsg.ListOffsetsRequest)
			resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
			for _, topic := range req.Topics {
				in := kmsg.NewListOffsetsResponseTopic()
				in.Topic = topic.Topic
				for _, p := range topic.Partitions {
					out := kmsg.NewListOffsetsResponseTopicPartition()
					if p.Timestamp == -1 {
						out.Offset = 5 // the end
					}
					in.Partitions = append(in.Partitions, out)
				}
				resp.Topics = append(resp.Topics, in)
			}
			return resp, nil, true
		})
		for _, kind := range []broker.Kind{broker.DeadLetter, broker.Events} {
			visited, began := 0, time.Now()
			err := brokertest.Read(t.Context(), b, "reader", kind, nil, func(batch []broker.Stored) error {
				visited += len(batch)
				return nil
			})
			if visited != 1 || (err == nil) != (kind == broker.DeadLetter) || time.Since(began) > time.Minute {
				t.Errorf("kind %d: %v after %d messages and %v", kind, err, visited, time.Since(began))
			}
		}
	})
}

// TestReplayEndsWithTheServer stops the server in the middle, for good.
func TestReplayEndsWithTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := virtual(t)
		b := ready(t, kafka.Options{URL: c.url(), Partitions: 1, Connect: c.connect})
		for range 4 { // more than one fetch
			spread(t, b, b.Routing().EventsOf("acme"), 0, 10_000)
		}
		began := time.Now()
		err := brokertest.Read(t.Context(), b, "reader", broker.Events, nil, func([]broker.Stored) error {
			c.stop()
			return nil
		})
		if took := time.Since(began); !errors.Is(err, broker.ErrUnavailable) || took > time.Minute {
			t.Errorf("%v after %v, want ErrUnavailable", err, took)
		}
	})
}

// TestDeadLettersOfASlowServerAreRead has a server that takes longer for the first fetch than a
// reader waits for a record: it pauses, or the answer takes long while it answers other requests.
// That is not the end of the dead letters.
func TestDeadLettersOfASlowServerAreRead(t *testing.T) {
	for name, slow := range map[string]func(*cluster){
		"pauses":      func(*cluster) { time.Sleep(7 * time.Second) },
		"slow answer": func(c *cluster) { c.SleepControl(func() { time.Sleep(8 * time.Second) }) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, c *cluster, opt kafka.Options) {
				b := ready(t, opt)
				publish(t, b, b.Routing().DeadLettersOf("acme"), "0")
				c.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
					c.DropControl()
					slow(c)
					return nil, nil, false
				})
				visited := 0
				err := brokertest.Read(t.Context(), b, "reader", broker.DeadLetter, nil, func(batch []broker.Stored) error {
					visited += len(batch)
					return nil
				})
				if err != nil || visited != 1 {
					t.Errorf("%d of 1 dead letters: %v", visited, err)
				}
			})
		})
	}
}
