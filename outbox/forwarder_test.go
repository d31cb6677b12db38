package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/timer"
)

// A ledger is an outbox in memory. The stores prove their own in storetest;
// here it must fail, and tell what was done to it.
type ledger struct {
	fail func(op string) error // nil: nothing fails

	mu      sync.Mutex
	seq     int64
	rows    []outbox.Row
	deleted []int64
	parked  map[int64]string
}

func (l *ledger) append(topics ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, topic := range topics {
		l.seq++
		m := message.NewMessage("id-"+strconv.FormatInt(l.seq, 10), []byte(topic))
		l.rows = append(l.rows, outbox.Row{Seq: l.seq, Message: m})
	}
}

func (l *ledger) failing(op string) error {
	if l.fail == nil {
		return nil
	}
	return l.fail(op)
}

func (l *ledger) Head(_ context.Context, after int64, limit int) ([]outbox.Row, error) {
	if err := l.failing("head"); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var rows []outbox.Row
	for _, r := range l.rows {
		if r.Seq > after && len(rows) < limit {
			rows = append(rows, r)
		}
	}
	return rows, nil
}

func (l *ledger) Delete(_ context.Context, seqs ...int64) error {
	if err := l.failing("delete"); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rows = slices.DeleteFunc(l.rows, func(r outbox.Row) bool { return slices.Contains(seqs, r.Seq) })
	l.deleted = append(l.deleted, seqs...)
	return nil
}

func (l *ledger) Fail(_ context.Context, seq int64, _ string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.rows {
		if l.rows[i].Seq == seq {
			l.rows[i].Attempts++
		}
	}
	return nil
}

func (l *ledger) Park(_ context.Context, _ time.Time, seq int64, reason string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rows = slices.DeleteFunc(l.rows, func(r outbox.Row) bool { return r.Seq == seq })
	if l.parked == nil {
		l.parked = make(map[int64]string)
	}
	l.parked[seq] = reason
	return nil
}

func (l *ledger) left() []int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	var seqs []int64
	for _, r := range l.rows {
		seqs = append(seqs, r.Seq)
	}
	return seqs
}

// A post is a publisher that remembers what it took, and when.
type post struct {
	publish func(topic string, m *message.Message) error // nil: all is well

	mu    sync.Mutex
	ids   map[string][]string // by topic, in order
	times map[string]time.Time
}

func (p *post) Close() error { return errors.New("the publisher belongs to the host") }

func (p *post) Publish(topic string, messages ...*message.Message) error {
	for _, m := range messages {
		if p.publish != nil {
			if err := p.publish(topic, m); err != nil {
				return err
			}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ids == nil {
		p.ids, p.times = make(map[string][]string), make(map[string]time.Time)
	}
	for _, m := range messages {
		p.ids[topic] = append(p.ids[topic], m.UUID)
		p.times[m.UUID] = time.Now()
	}
	return nil
}

// record returns p.
func (p *post) record() *post { return p }

// at returns when a message was published, last.
func (p *post) at(id string) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.times[id]
}

// forward runs a forwarder until the bubble ends.
func forward(t *testing.T, l *ledger, p message.Publisher, opt outbox.ForwarderOptions) *outbox.Forwarder {
	f, _ := forwardUntil(t, l, p, opt)
	return f
}

// forwardUntil runs a forwarder until stop is called or the bubble ends.
func forwardUntil(t *testing.T, l *ledger, p message.Publisher, opt outbox.ForwarderOptions) (_ *outbox.Forwarder, stop func()) {
	f := outbox.NewForwarder(l, p, func(m *message.Message) string { return string(m.Payload) },
		timer.ClockFunc(time.Now), slog.New(slog.DiscardHandler), opt)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	return f, stop
}

func TestForwardsInOrderAndDeletesAfterTheAck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := new(ledger), new(post)
		f := forward(t, l, p, outbox.ForwarderOptions{Batch: 3})
		for range 10 {
			l.append("a", "b", "a", "a")
			f.Wake()
		}
		if err := f.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		var a, b []string
		for i := 1; i <= 40; i++ {
			if i%4 == 2 {
				b = append(b, fmt.Sprint("id-", i))
			} else {
				a = append(a, fmt.Sprint("id-", i))
			}
		}
		if diff := cmp.Diff(map[string][]string{"a": a, "b": b}, p.ids); diff != "" {
			t.Errorf("published (-want +got):\n%s", diff)
		}
		if len(l.deleted) != 40 {
			t.Errorf("deleted %d rows, want each of 40 once", len(l.deleted))
		}
	})
}

func TestWithoutAWakeForwardsAtTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p, began := new(ledger), new(post), time.Now()
		forward(t, l, p, outbox.ForwarderOptions{Interval: 5 * time.Second})
		synctest.Wait()
		l.append("a") // and the wake is lost
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if got := p.at("id-1").Sub(began); got != 5*time.Second {
			t.Errorf("forwarded after %v, want 5s", got)
		}
	})
}

// TestLooksOnceAnEvent counts looks at the outbox: one at the start, then one for
// each event that comes alone.
func TestLooksOnceAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		l, p := &ledger{fail: func(op string) error {
			if op == "head" {
				looks++
			}
			return nil
		}}, new(post)
		f := forward(t, l, p, outbox.ForwarderOptions{Interval: time.Hour})
		synctest.Wait()
		for range 10 {
			l.append("a")
			f.Wake()
			synctest.Wait()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if looks != 1+10 || len(l.left()) != 0 {
			t.Errorf("%d looks for 10 events, want 11; left %v", looks, l.left())
		}
	})
}

// TestDeletesTogetherWhatIsPublishedWithinAMoment has events come one by one.
func TestDeletesTogetherWhatIsPublishedWithinAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deletes := 0
		l, p := &ledger{fail: func(op string) error {
			if op == "delete" {
				deletes++
			}
			return nil
		}}, new(post)
		f := forward(t, l, p, outbox.ForwarderOptions{Interval: time.Hour})
		synctest.Wait()
		for range 1000 {
			l.append("a")
			f.Wake()
			time.Sleep(time.Millisecond)
		}
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if len(l.left()) > 0 || deletes < 10 || deletes > 50 {
			t.Errorf("%d deletes for 1000 events in a second, want from 10 to 50; left %v", deletes, l.left())
		}
	})
}

func TestOutageBeginsAgainFromTheOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p, began := new(ledger), new(post), time.Now()
		tries := 0
		p.publish = func(string, *message.Message) error {
			if time.Since(began) < 10*time.Minute {
				tries++
				return errors.New("no connection")
			}
			return nil
		}
		f := forward(t, l, p, outbox.ForwarderOptions{})
		l.append("a", "a")
		f.Wake()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		l.append("a")
		f.Wake()
		time.Sleep(6 * time.Minute)
		synctest.Wait()
		if diff := cmp.Diff(map[string][]string{"a": {"id-1", "id-2", "id-3"}}, p.ids); diff != "" {
			t.Errorf("published (-want +got):\n%s", diff)
		}
		if late := p.at("id-3").Sub(began) - 10*time.Minute; late > 5*time.Second {
			t.Errorf("went on %v after the broker was back, want at most 5s", late)
		}
		if tries > 150 {
			t.Errorf("tried %d times in ten minutes", tries)
		}
		if len(l.left()) > 0 || len(l.parked) > 0 {
			t.Errorf("left %v, parked %v", l.left(), l.parked)
		}
	})
}

func TestRefusedRowIsParkedAndDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := new(ledger), new(post)
		refusals := 0
		p.publish = func(_ string, m *message.Message) error {
			if m.UUID == "id-2" {
				refusals++
				return fmt.Errorf("%w: too large", broker.ErrRefused)
			}
			return nil
		}
		var parked []string
		f := forward(t, l, p, outbox.ForwarderOptions{MaxAttempts: 5, Parked: func(reason string) { parked = append(parked, reason) }})
		l.append("a", "a", "a", "b")
		began := time.Now()
		f.Wake()
		synctest.Wait()
		if diff := cmp.Diff(map[string][]string{"a": {"id-1", "id-3"}, "b": {"id-4"}}, p.ids); diff != "" {
			t.Errorf("published at once (-want +got):\n%s", diff)
		}
		for range 100 { // a steady stream neither starves the bad row nor waits for it
			l.append("a")
			f.Wake()
			synctest.Wait()
			if n := l.seq; !p.at(fmt.Sprint("id-", n)).Equal(time.Now()) {
				t.Fatalf("id-%d was delayed", n)
			}
			time.Sleep(20 * time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if l.parked[2] == "" || len(parked) != 1 || len(l.left()) != 0 {
			t.Errorf("parked %v (told %q), left %v; want the second row only", l.parked, parked, l.left())
		}
		if refusals < 5 || refusals > 6 { // the first is seen twice: with its batch, and alone
			t.Errorf("tried %d times in %v", refusals, time.Since(began))
		}
	})
}

func TestTopicThatFailsDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p, began := new(ledger), new(post), time.Now()
		p.publish = func(topic string, _ *message.Message) error {
			if topic == "bad" && time.Since(began) < time.Minute {
				return errors.New("no answer")
			}
			return nil
		}
		f := forward(t, l, p, outbox.ForwarderOptions{MaxAttempts: 1})
		l.append("bad", "good")
		f.Wake()
		synctest.Wait()
		if !p.at("id-2").Equal(began) {
			t.Error("the good topic waited for the bad one")
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if late := p.at("id-1").Sub(began) - time.Minute; p.at("id-1").IsZero() || late > 5*time.Second {
			t.Errorf("the bad topic was served %v after it was well", late)
		}
		if len(l.parked) > 0 {
			t.Errorf("parked %v, which the broker never refused", l.parked)
		}
	})
}

func TestFailedDeleteIsPublishedAgainUnderTheSameID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := new(ledger), new(post)
		failures := 1
		l.fail = func(op string) error {
			if op == "delete" && failures > 0 {
				failures--
				return errors.New("disk full")
			}
			return nil
		}
		f := forward(t, l, p, outbox.ForwarderOptions{})
		l.append("a", "a")
		if err := f.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"id-1", "id-2", "id-1", "id-2"}, p.ids["a"]); diff != "" {
			t.Errorf("published (-want +got):\n%s", diff)
		}
	})
}

func TestStopFinishesTheBatchInHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := new(ledger), new(post)
		publishing := make(chan struct{}, 1)
		p.publish = func(string, *message.Message) error {
			publishing <- struct{}{}
			time.Sleep(time.Second)
			return nil
		}
		l.append("a")
		_, stop := forwardUntil(t, l, p, outbox.ForwarderOptions{})
		<-publishing
		stop()
		if len(p.ids["a"]) != 1 || len(l.left()) != 0 {
			t.Errorf("published %v and left %v: the next start would publish it again", p.ids["a"], l.left())
		}
	})
}

func TestFatalStoreEndsTheForwarder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{fail: func(string) error { return timer.ErrFatal }}
		f := outbox.NewForwarder(l, new(post), func(*message.Message) string { return "a" },
			timer.ClockFunc(time.Now), slog.New(slog.DiscardHandler), outbox.ForwarderOptions{})
		if err := f.Run(t.Context()); !errors.Is(err, timer.ErrFatal) {
			t.Errorf("Run: %v, want ErrFatal", err)
		}
	})
}

// A widePost also publishes to many topics in one go.
type widePost struct {
	post
	calls int
}

func (p *widePost) PublishTo(topics []string, messages []*message.Message) error {
	p.calls++
	for i, m := range messages {
		if err := p.Publish(topics[i], m); err != nil {
			return err
		}
	}
	return nil
}

func TestManyTopicsGoOutInOneGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := new(ledger), new(widePost)
		l.append("a", "b", "c", "a")
		f := forward(t, l, p, outbox.ForwarderOptions{})
		if err := f.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := map[string][]string{"a": {"id-1", "id-4"}, "b": {"id-2"}, "c": {"id-3"}}
		if diff := cmp.Diff(want, p.ids); diff != "" || p.calls != 1 {
			t.Errorf("published in %d calls (-want +got):\n%s", p.calls, diff)
		}
	})
}

func TestOneBadTopicOfManyDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p, began := new(ledger), new(widePost), time.Now()
		p.publish = func(topic string, _ *message.Message) error {
			if topic == "bad" && time.Since(began) < time.Minute {
				return errors.New("no answer")
			}
			return nil
		}
		l.append("bad", "good", "good")
		forward(t, l, p, outbox.ForwarderOptions{})
		synctest.Wait()
		if !p.at("id-2").Equal(began) || !p.at("id-3").Equal(began) {
			t.Error("the good topic waited for the bad one")
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if p.at("id-1").IsZero() || len(l.left()) > 0 {
			t.Errorf("the bad topic was not served when it was well; left %v", l.left())
		}
	})
}

// A session that is cut short soon has deleted most of what it published.
func TestSessionBeginsWithASmallBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := new(ledger), new(widePost)
		for range 1000 {
			l.append("a")
		}
		var sizes []int
		f := forward(t, l, p, outbox.ForwarderOptions{Batch: 500, Forwarded: func(rows int) { sizes = append(sizes, rows) }})
		if err := f.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]int{64, 128, 256, 500, 52}, sizes); diff != "" {
			t.Errorf("batches (-want +got):\n%s", diff)
		}
	})
}
