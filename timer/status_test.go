package timer_test

import (
	"strings"
	"testing"
	"time"

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

// TestStatusOfAMove is the table of a timer of version 5 that is moved as it was read, with a
// command of version 7.
func TestStatusOfAMove(t *testing.T) {
	t.Parallel()
	version := func(age int64) timer.Version { return timer.Version{TimestampMS: age, CommandID: "command"} }
	for _, c := range []struct {
		before    timer.Status
		expiresAt time.Time
		want      timer.Outcome
	}{
		{timer.Status{}, time.Time{}, timer.WasChanged},
		{timer.Status{State: timer.Scheduled, Version: version(5)}, time.Time{}, timer.DidReschedule},
		{timer.Status{State: timer.Scheduled, Version: version(5)}, noon.Add(time.Millisecond), timer.DidReschedule},
		{timer.Status{State: timer.Scheduled, Version: version(5)}, noon, timer.WasPastExpiry},
		{timer.Status{State: timer.Scheduled, Version: version(6)}, noon, timer.WasChanged},
		{timer.Status{State: timer.Scheduled, Version: version(7)}, time.Time{}, timer.WasSame},
		{timer.Status{State: timer.Scheduled, Version: version(8)}, time.Time{}, timer.WasStale},
		{timer.Status{State: timer.Canceled, Version: version(5)}, time.Time{}, timer.WasChanged},
		{timer.Status{State: timer.Canceled, Version: version(8)}, time.Time{}, timer.WasStale},
		{timer.Status{State: timer.Reached, Version: version(5)}, time.Time{}, timer.WasReached},
		{timer.Status{State: timer.Expired, Version: version(5)}, time.Time{}, timer.WasExpired},
	} {
		want := c.before
		if c.want == timer.DidReschedule {
			want.Version = version(7)
		}
		after, got := c.before.Move(&timer.ScheduleTimer{Version: version(7), Moves: version(5), DueAt: noon, ExpiresAt: c.expiresAt})
		if got != c.want || after != want {
			t.Errorf("%+v, expires %s: %s, %+v, want %s, %+v", c.before, c.expiresAt, got, after, c.want, want)
		}
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

func TestUnprotectedInWords(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for want, u := range map[string]timer.Unprotected{
		"not known yet": {Timers: 1},
		"backup only: the broker keeps nothing that was read":  {At: noon, Timers: 1},
		"of all timers that wait (since 2026-01-02T12:00:00Z)": {At: noon, Before: noon},
		"too many to look at all":                              {At: noon, Before: noon, More: true},
		"timers older than the messages that the broker still has (since 2026-01-02T12:00:00Z): 7; the oldest is of 2026-01-02T11:00:00Z; only a backup protects them": {At: noon, Before: noon, Timers: 7, Oldest: noon.Add(-time.Hour)},
		": 7 or more; ": {At: noon, Before: noon, Timers: 7, More: true},
	} {
		if got := u.String(); !strings.Contains(got, want) {
			t.Errorf("%+v: %q, want %q", u, got, want)
		}
	}
}
