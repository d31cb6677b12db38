package brokertest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/timer"
)

// anyOrder publishes commands of many keys, each in an order of its own, some
// twice, from several publishers at once, nacks some before the handlers have
// them, and fails some commits. Whatever the order of arrival, each key ends as
// its newest version has it, and has one event with the due time of that.
func anyOrder(w *world) {
	const versions, publishers = 5, 4
	keys := fewer(1000, 200)
	noon := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	model := &modelStore{timers: make(map[timer.Key]*modelTimer), seen: make(map[string]bool)}
	want := make(map[timer.Key]time.Time) // due times of the timers that are not canceled
	var all []broker.Message
	topic := w.Routing().CommandsOf("acme")
	for i := range keys {
		key := timer.Key{TenantID: "acme", ServiceCallID: timer.ServiceCallID(fmt.Sprint("call-", i))}
		var ofKey []broker.Message
		for v := range versions {
			version := timer.Version{TimestampMS: noon.UnixMilli() + int64(v), CommandID: fmt.Sprintf("%s-%d", key.ServiceCallID, v)}
			body := envelope.Cancel(timer.CancelTimer{Key: key, Version: version})
			if due := noon.Add(time.Duration(i*versions+v) * time.Second); rand.IntN(4) > 0 {
				body = envelope.Schedule(timer.ScheduleTimer{Key: key, Version: version, DueAt: due})
				want[key] = due
			} else {
				delete(want, key)
			}
			for range 1 + rand.IntN(2) { // producers repeat themselves too
				m := keyed(string(key.ServiceCallID), "")
				m.Payload = body
				ofKey = append(ofKey, broker.Message{Topic: topic, Message: m})
			}
		}
		rand.Shuffle(len(ofKey), func(i, j int) { ofKey[i], ofKey[j] = ofKey[j], ofKey[i] })
		all = append(all, ofKey...)
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })

	sub := &flakySubscriber{Subscriber: w.Subscriber("service"), nacks: math.MaxInt}
	if _, waits := w.features.Lacks[retryPromise]; waits {
		sub.nacks = 10 // all wait a second for each
	}
	w.runHandlers(model, sub, noon)
	var publishing sync.WaitGroup
	for some := range slices.Chunk(all, (len(all)+publishers-1)/publishers) {
		publishing.Go(func() {
			for len(some) > 0 {
				n := min(len(some), 1+rand.IntN(500))
				if err := broker.Join(w.Publisher().Publish(w.Context(), some[:n]...)); err != nil {
					w.Error(err)
				}
				some = some[n:]
			}
		})
	}
	publishing.Wait()
	Await(w, "commands that are handled", func() bool { return model.count() == keys*versions })

	got := make(map[timer.Key]time.Time)
	for _, event := range model.fire() {
		if _, twice := got[event.Key]; twice {
			w.Errorf("%s has two events", event.ServiceCallID)
		}
		got[event.Key] = event.DueAt
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("events (-want +got):\n%s", diff)
	}
	w.Logf("%d messages, %d commands, %d events", len(all), model.count(), len(got))
}

// A modelStore keeps timers in memory by the rules of [timer.Status], and fails
// now and then.
type modelStore struct {
	mu     sync.Mutex
	timers map[timer.Key]*modelTimer
	seen   map[string]bool // commands that were applied, by id
	calls  int
}

type modelTimer struct {
	status timer.Status
	due    time.Time
}

// begin locks the store for a transaction. Every 200th fails.
func (s *modelStore) begin() error {
	s.mu.Lock()
	if s.calls++; s.calls%200 == 0 {
		return errors.New("the database is busy")
	}
	return nil
}

// timer returns the timer of a key, and notes that a command was applied to it.
func (s *modelStore) timer(key timer.Key, id string) *modelTimer {
	s.seen[id] = true
	if s.timers[key] == nil {
		s.timers[key] = new(modelTimer)
	}
	return s.timers[key]
}

func (s *modelStore) Schedule(_ context.Context, _ time.Time, commands ...timer.ScheduleTimer) ([]timer.Result, error) {
	err := s.begin()
	defer s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	results := make([]timer.Result, len(commands))
	for i, c := range commands {
		t := s.timer(c.Key, c.CommandID)
		before := t.status
		if t.status, results[i].Outcome = before.Schedule(c.Version); t.status != before {
			t.due = c.DueAt
		}
	}
	return results, nil
}

func (s *modelStore) Cancel(_ context.Context, _ time.Time, commands ...timer.CancelTimer) ([]timer.Result, error) {
	err := s.begin()
	defer s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	results := make([]timer.Result, len(commands))
	for i, c := range commands {
		t := s.timer(c.Key, c.CommandID)
		t.status, results[i].Outcome = t.status.Cancel(c.Version)
	}
	return results, nil
}

// PutInbox fails, so what fails is nacked.
func (s *modelStore) PutInbox(context.Context, time.Time, ...timer.InboxMessage) error {
	return errors.ErrUnsupported
}

// count returns how many different commands were applied.
func (s *modelStore) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.seen)
}

// fire marks all scheduled timers as reached, and returns their events.
func (s *modelStore) fire() (events []timer.DueTimeReached) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, t := range s.timers {
		if t.status.State == timer.Scheduled {
			t.status.State = timer.Reached
			events = append(events, timer.DueTimeReached{Key: key, CommandID: t.status.Version.CommandID, DueAt: t.due})
		}
	}
	return events
}

// A flakySubscriber nacks one message in ten, so that messages behind it are handled first.
type flakySubscriber struct {
	message.Subscriber
	nacks int // how many more it nacks
}

// Subscribe subscribes, and nacks some messages before they are delivered.
func (f *flakySubscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	in, err := f.Subscriber.Subscribe(ctx, topic)
	if err != nil {
		return nil, err
	}
	out := make(chan *message.Message)
	go func() {
		defer close(out)
		for msg := range in {
			if broker.Deliveries(msg) < 3 && f.nacks > 0 && rand.IntN(10) == 0 { // then it comes again after 1 and 5 s
				f.nacks--
				msg.Nack()
				continue
			}
			select {
			case out <- msg:
			case <-ctx.Done():
				msg.Nack()
			}
		}
	}()
	return out, nil
}

// An emptyInbox has no messages.
type emptyInbox struct{ timer.Inbox }

func (emptyInbox) HastenInbox(context.Context, time.Time, time.Time) error   { return nil }
func (emptyInbox) NextInbox(context.Context) (time.Time, error)              { return time.Time{}, nil }
func (emptyInbox) PurgeApplied(context.Context, time.Time, int) (int, error) { return 0, nil }

// runHandlers runs the handlers on a subscriber until the test ends.
func (w *world) runHandlers(store handlers.Store, sub message.Subscriber, clock time.Time) {
	h := handlers.New(store, emptyInbox{}, w.Routing(), sub, w.Publisher(),
		timer.ClockFunc(func() time.Time { return clock }), slog.New(slog.DiscardHandler), handlers.Options{})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	w.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			w.Errorf("handlers: %v", err)
		}
	})
	<-h.Running()
}

// samePartition publishes messages of some keys in several calls. Those of one
// key are in one partition, in the order of publishing.
func samePartition(w *world) {
	const keys, calls, each = 20, 5, 10
	topic := w.topic()
	messages := w.subscribe(w, "reader", topic)
	n := 0
	for range calls {
		var all []*message.Message
		for range each {
			for key := range keys {
				all = append(all, keyed(fmt.Sprint("call-", key), fmt.Sprintf("%06d", n)))
				n++
			}
		}
		w.publish(w, topic, all...)
	}
	type place struct {
		partition string
		position  uint64
		body      string
	}
	places := make(map[string][]place)
	for range n {
		msg := Next(w, messages)
		partition, position, err := parsePosition(msg.Metadata.Get(broker.MetaPosition))
		if err != nil {
			w.Fatalf("position %q: %v", msg.Metadata.Get(broker.MetaPosition), err)
		}
		key := broker.Key(msg)
		places[key] = append(places[key], place{partition, position, string(msg.Payload)})
		msg.Ack()
	}
	for key, all := range places {
		slices.SortFunc(all, func(a, b place) int { return int(a.position) - int(b.position) })
		for i := range all[1:] {
			if all[i].partition != all[i+1].partition || all[i].position == all[i+1].position || all[i].body >= all[i+1].body {
				w.Fatalf("%s: %v, then %v", key, all[i], all[i+1])
			}
		}
	}
}
