package timer_test

import (
	"testing"

	"github.com/event-service-agent/timer-service/timer"
)

// TestStatus is the table of states and commands: the command for a timer of version
// 5 is older, the same or newer.
func TestStatus(t *testing.T) {
	t.Parallel()
	version := func(age int64) timer.Version { return timer.Version{TimestampMS: age, CommandID: "command"} }
	const stays = timer.State("")
	for _, c := range []struct {
		state               timer.State
		age                 int64
		schedule, cancel    timer.Outcome
		scheduled, canceled timer.State // afterwards
	}{
		{"", 0, timer.DidSchedule, timer.DidCancel, timer.Scheduled, timer.Canceled},
		{timer.Scheduled, 4, timer.WasStale, timer.WasStale, stays, stays},
		{timer.Scheduled, 5, timer.WasSame, timer.WasSame, stays, stays},
		{timer.Scheduled, 6, timer.DidReschedule, timer.DidCancel, timer.Scheduled, timer.Canceled},
		{timer.Canceled, 4, timer.WasStale, timer.WasStale, stays, stays},
		{timer.Canceled, 5, timer.WasSame, timer.WasSame, stays, stays},
		{timer.Canceled, 6, timer.DidSchedule, timer.WasCanceled, timer.Scheduled, timer.Canceled},
		{timer.Reached, 4, timer.WasReached, timer.WasReached, stays, stays},
		{timer.Reached, 5, timer.WasSame, timer.WasSame, stays, stays},
		{timer.Reached, 6, timer.WasReached, timer.WasReached, stays, stays},
		{timer.Expired, 4, timer.WasExpired, timer.WasExpired, stays, stays},
		{timer.Expired, 5, timer.WasSame, timer.WasSame, stays, stays},
		{timer.Expired, 6, timer.WasExpired, timer.WasExpired, stays, stays},
	} {
		var before timer.Status
		if c.state != "" {
			before = timer.Status{State: c.state, Version: version(5)}
		}
		check := func(command string, after timer.Status, got, want timer.Outcome, state timer.State) {
			t.Helper()
			wantAfter := before
			if state != stays {
				wantAfter = timer.Status{State: state, Version: version(c.age)}
			}
			if got != want || after != wantAfter {
				t.Errorf("%q, then %s of age %d: %s, %+v, want %s, %+v", c.state, command, c.age, got, after, want, wantAfter)
			}
		}
		after, got := before.Schedule(version(c.age))
		check("schedule", after, got, c.schedule, c.scheduled)
		after, got = before.Cancel(version(c.age))
		check("cancel", after, got, c.cancel, c.canceled)
	}
}

// TestEqualTimes are told apart by the id, and say so.
func TestEqualTimes(t *testing.T) {
	t.Parallel()
	lesser, greater := timer.Version{TimestampMS: 5, CommandID: "a"}, timer.Version{TimestampMS: 5, CommandID: "b"}
	s := timer.Status{State: timer.Scheduled, Version: greater}
	if after, got := s.Cancel(lesser); got != timer.WasTied || after != s {
		t.Errorf("%v, %+v", got, after)
	}
	if _, got := (timer.Status{State: timer.Scheduled, Version: lesser}).Cancel(greater); got != timer.DidCancel {
		t.Error(got)
	}
}

// TestOutcomesOfAnEntry asks entries of version 2 about older and newer commands.
func TestOutcomesOfAnEntry(t *testing.T) {
	t.Parallel()
	version := func(ms int64) timer.Version { return timer.Version{TimestampMS: ms, CommandID: "a"} }
	for state, want := range map[timer.State]struct{ schedule, cancel [3]timer.Outcome }{ // versions 1, 2 and 3
		timer.Scheduled: {
			[3]timer.Outcome{timer.WasStale, timer.DidSchedule, 0},
			[3]timer.Outcome{timer.WasStale, 0, 0},
		},
		timer.Reached: {
			[3]timer.Outcome{timer.WasReached, timer.DidSchedule, timer.WasReached},
			[3]timer.Outcome{timer.WasReached, timer.WasReached, timer.WasReached},
		},
		timer.Expired: {
			[3]timer.Outcome{timer.WasExpired, timer.DidSchedule, timer.WasExpired},
			[3]timer.Outcome{timer.WasExpired, timer.WasExpired, timer.WasExpired},
		},
		timer.Canceled: {
			[3]timer.Outcome{timer.WasStale, timer.DidSchedule, 0},
			[3]timer.Outcome{timer.DidCancel, timer.DidCancel, timer.DidCancel},
		},
	} {
		e := timer.Entry{State: state, Version: version(2)}
		for i := range 3 {
			if got := e.ScheduleOutcome(version(int64(i + 1))); got != want.schedule[i] {
				t.Errorf("%s, ScheduleTimer of version %d: %v, want %v", state, i+1, got, want.schedule[i])
			}
			if got := e.CancelOutcome(version(int64(i + 1))); got != want.cancel[i] {
				t.Errorf("%s, CancelTimer of version %d: %v, want %v", state, i+1, got, want.cancel[i])
			}
		}
	}
}
