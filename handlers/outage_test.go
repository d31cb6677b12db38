package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/logbuf"
	"github.com/event-service-agent/timer-service/internal/retry"
	"github.com/event-service-agent/timer-service/timer"
)

var errLocked = errors.New("database is locked")

// An outage is never poison: a command is tried three times, the last time alone, and longer while
// the store does not work.
func TestTriesOfACommandThatFails(t *testing.T) {
	t.Parallel()
	inTransaction := fmt.Errorf("schedule: %w", timer.ErrLocked)
	for name, c := range map[string]struct {
		fails   func(after time.Duration) error
		away    time.Duration // for which the store does not work
		applied bool
		ways    []string // of the first tries
		most    int      // tries
	}{
		"the store works, the command does not": {func(time.Duration) error { return errLocked }, 0, false, []string{"batch", "batch", "alone"}, 3},
		"it panics":                             {func(time.Duration) error { panic("bug") }, 0, false, []string{"batch", "batch", "alone"}, 3},
		"the store is away":                     {func(after time.Duration) error { return unless(after > time.Hour, errLocked) }, time.Hour, true, []string{"batch", "batch", "alone", "alone"}, 1000},
		"the store is back, the command fails":  {func(time.Duration) error { return errLocked }, time.Minute, false, []string{"batch", "batch", "alone", "alone"}, 100},
		"another transaction has locked its timer": {
			func(after time.Duration) error { return unless(after > time.Minute, inTransaction) }, 0, true, []string{"batch", "alone", "alone"}, 1000,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newHarness()
				d.batched = true
				began := time.Now()
				d.apply = func(any) error { return c.fails(time.Since(began)) }
				d.works = func(context.Context) error { return unless(time.Since(began) >= c.away, errLocked) }
				h := d.run(t, routing)
				acked := d.deliver(string(envelope.Schedule(command)))
				if waits := d.waits(t, "acme").failed > 0; !acked || waits == c.applied || time.Since(began) < c.away {
					t.Errorf("acked %t, waits %t after %v, want it applied: %t", acked, waits, time.Since(began), c.applied)
				}
				if len(d.ways) < len(c.ways) || !slices.Equal(d.ways[:len(c.ways)], c.ways) || len(d.ways) > c.most || slices.Contains(d.ways[len(c.ways):], "batch") {
					t.Errorf("%d tries: %v, want %v, and then alone", len(d.ways), d.ways[:min(10, len(d.ways))], c.ways)
				}
				if len(d.dead) != 0 || c.ways[1] == "alone" && h.Failures() > 0 {
					t.Errorf("%d dead letters, the store failed %d times", len(d.dead), h.Failures())
				}
			})
		})
	}
}

func unless(fine bool, err error) error {
	if fine {
		return nil
	}
	return err
}

// TestIntakeTriesOnceAfterEachPause has the store down twice, while a hundred commands wait:
// one of them is tried after each pause, which grows to a limit, and all go on when it is back.
func TestIntakeTriesOnceAfterEachPause(t *testing.T) {
	inBubble(t, func(t *testing.T, d *harness) {
		var began time.Time
		var tries []time.Duration
		down := func() error { return unless(time.Since(began) > 10*time.Minute, errLocked) }
		d.apply = func(any) error {
			if down() != nil {
				tries = append(tries, time.Since(began))
			}
			return down()
		}
		d.works = func(context.Context) error { return down() }
		h := d.run(t, routing)
		for round := range 2 {
			began, tries = time.Now(), nil
			sent := []*message.Message{d.send([]byte(order("acme", 0)))}
			synctest.Wait()
			for i := range 99 {
				sent = append(sent, d.send([]byte(order("acme", i+1))))
			}
			time.Sleep(5 * time.Minute)
			if !h.Paused() || !d.deliver("hello") {
				t.Error("the intake goes on, or an invalid message is not acked while the store is down")
			}
			time.Sleep(5*time.Minute + 6*time.Second)
			synctest.Wait()
			if h.Paused() || slices.ContainsFunc(sent, func(m *message.Message) bool { return !acked(m) }) || len(d.dead) != round+1 {
				t.Errorf("paused %t, %d dead letters, want each command acked", h.Paused(), len(d.dead))
			}
			pause := retry.Intake.First
			for i := 1; i < len(tries); i++ {
				if got := tries[i] - tries[i-1]; got != pause {
					t.Fatalf("round %d: try %d after another %v, want %v", round, i, got, pause)
				}
				pause = min(2*pause, retry.Intake.Longest)
			}
			if len(tries) < 100 {
				t.Errorf("round %d: %d tries", round, len(tries))
			}
		}
	})
}

func TestFatalEndsTheIntake(t *testing.T) {
	inBubble(t, func(t *testing.T, d *harness) {
		d.apply = func(any) error { return timer.ErrFatal }
		_, _, ended := d.start(t, routing)
		if d.deliver(string(envelope.Schedule(command))) {
			t.Error("acked")
		}
		if err := <-ended; !errors.Is(err, timer.ErrFatal) {
			t.Errorf("Run: %v, want ErrFatal", err)
		}
	})
}

// TestTopicOfDeadLettersThatTakesNothingHoldsFewMessages: messages that wait for it keep
// messages of all tenants from being handled.
func TestTopicOfDeadLettersThatTakesNothingHoldsFewMessages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const each, few = 4000, 256
		var log logbuf.Buffer
		d := newHarness()
		d.log = slog.NewTextHandler(&log, nil)
		d.publish = func(ctx context.Context, topic string, _ *message.Message) error {
			if strings.Contains(topic, "bad") {
				<-ctx.Done()
				return ctx.Err()
			}
			time.Sleep(10 * time.Millisecond)
			return nil
		}
		d.run(t, routing)
		var mu sync.Mutex
		became := make(map[string]int)
		for i := range each {
			for _, tenant := range []string{"bad", "good"} {
				m := d.send(fmt.Appendf(nil, `{"id":"%d","tenantId":"%s"}`, i, tenant))
				go func() {
					what := " acked"
					select {
					case <-m.Acked():
					case <-m.Nacked():
						what = " nacked"
					}
					mu.Lock()
					defer mu.Unlock()
					became[tenant+what]++
				}()
			}
		}
		for after, least := range []int{each - few, each} {
			time.Sleep(time.Second + time.Duration(after)*10*time.Second)
			synctest.Wait()
			mu.Lock()
			if waits := d.waits(t, "bad").failed; became["good acked"] != each || became["bad acked"] < least || became["bad nacked"] > 0 || waits < int64(least) {
				t.Errorf("%v, %d wait, want all acked, and %d bad ones waiting at least", became, waits, least)
			}
			mu.Unlock()
		}
		if text := log.Take(); strings.Count(text, "256 others wait for that\" first_message_uuid=original-id") != 1 || strings.Count(text, "\n") > 10 {
			t.Errorf("the log, want one line for all that failed:\n%.2000s", text)
		}
	})
}
