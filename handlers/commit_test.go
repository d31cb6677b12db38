package handlers_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// schedules returns commands of different timers, each due a second before the
// one before it.
func schedules(n int) []timer.ScheduleTimer {
	commands := make([]timer.ScheduleTimer, n)
	for i := range commands {
		commands[i] = command
		commands[i].ServiceCallID = timer.ServiceCallID(fmt.Sprint("order-", i))
		commands[i].CommandID = fmt.Sprint("c-", i)
		commands[i].DueAt = command.DueAt.Add(-time.Duration(i) * time.Second)
	}
	return commands
}

// send hands over a command without waiting for what becomes of it.
func (d *harness) send(body []byte) *message.Message {
	m := message.NewMessage("original-id", body)
	d.in <- m
	return m
}

func acked(m *message.Message) bool {
	select {
	case <-m.Acked():
		return true
	default:
		return false
	}
}

// TestCommandsShareACommit blocks the first commit until more have come.
func TestCommandsShareACommit(t *testing.T) {
	inBubble(t, func(t *testing.T, d *harness) {
		d.batched = true
		first := make(chan struct{})
		d.apply = func(any) error { <-first; return nil }
		d.run(t, routing)
		commands := schedules(10)
		var sent []*message.Message
		for _, c := range commands {
			sent = append(sent, d.send(envelope.Schedule(c)))
			synctest.Wait()
		}
		cancel := timer.CancelTimer{Key: command.Key, Version: timer.Version{TimestampMS: noon.UnixMilli() + 2, CommandID: "c-x"}}
		sent = append(sent, d.send(envelope.Cancel(cancel)))
		synctest.Wait()
		if slices.ContainsFunc(sent, acked) {
			t.Error("acked before the commit")
		}
		close(first)
		synctest.Wait()
		for i, m := range sent {
			if !acked(m) {
				t.Errorf("message %d is not acked", i)
			}
		}
		if slices.Sort(d.commits); !slices.Equal(d.commits, []int{1, 1, 9}) {
			t.Errorf("commits of %v commands, want the first alone, the cancel alone, and the later ones together", d.commits)
		}
		if len(d.results) != 11 {
			t.Errorf("counted %d, want 11", len(d.results))
		}
		if !slices.Contains(d.wakes, commands[9].DueAt) {
			t.Errorf("notified the poller of %v, not of the earliest due time", d.wakes)
		}
	})
}

// TestOneThatFailsFailsAlone mixes in commands that the store refuses,
// that fail, and that panic.
func TestOneThatFailsFailsAlone(t *testing.T) {
	t.Parallel()
	for name, bad := range failures {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newHarness()
				d.batched = true
				gate := make(chan struct{})
				d.apply = func(c any) error {
					<-gate
					if s, ok := c.(timer.ScheduleTimer); ok && s.CommandID == "c-3" {
						return bad()
					}
					return nil
				}
				d.run(t, routing)
				var sent []*message.Message
				for _, c := range schedules(6) {
					sent = append(sent, d.send(envelope.Schedule(c)))
				}
				synctest.Wait()
				close(gate)
				time.Sleep(time.Minute)
				for i, m := range sent {
					if !acked(m) {
						t.Errorf("message %d is not acked", i)
					}
				}
				if got, want := d.waits(t, "acme").failed, map[bool]int64{false: 1}[name == "refused"]; got != want { // a dead letter otherwise
					t.Errorf("%d messages wait, want %d", got, want)
				}
				if len(d.applied) != 5 {
					t.Errorf("%d commands were applied, want 5", len(d.applied))
				}
				if want := map[bool]int{true: 1}[name == "refused"]; len(d.dead) != want {
					t.Errorf("%d dead letters, want %d", len(d.dead), want)
				}
			})
		})
	}
}

func TestNothingIsAckedBeforeTheCommit(t *testing.T) {
	inBubble(t, func(t *testing.T, d *harness) {
		commit := make(chan struct{})
		d.apply = func(any) error { <-commit; return nil }
		d.run(t, routing)
		m := d.send(envelope.Schedule(command))
		synctest.Wait()
		select {
		case <-m.Acked():
			t.Error("acked before the commit")
		case <-m.Nacked():
			t.Error("nacked before the commit")
		default:
		}
		close(commit)
		<-m.Acked()
	})
}

// failures are the ways in which a store fails.
var failures = map[string]func() error{
	"refused": func() error { return timer.Invalid(timer.ReasonRefused, "no such service call") },
	"fails":   func() error { return errors.New("database is locked") },
	"panics":  func() error { panic("bug") },
}
