package timer

import "time"

// A Status is what decides the effect of a command on a timer. The zero value is
// that of a key that has no timer.
type Status struct {
	State   State
	Version Version // of the newest command that took effect
}

// Schedule returns the status after a [ScheduleTimer] of a version, and the
// outcome of that command.
func (s Status) Schedule(v Version) (Status, Outcome) {
	outcome := s.unchanged(v)
	switch {
	case outcome != 0:
		return s, outcome
	case s.State == Scheduled:
		outcome = DidReschedule
	default:
		outcome = DidSchedule
	}
	return Status{State: Scheduled, Version: v}, outcome
}

// Cancel returns the status after a [CancelTimer] of a version, and the outcome of
// that command. A timer that is Canceled already gets the newer version, else an
// older ScheduleTimer that the command supersedes could still fire.
func (s Status) Cancel(v Version) (Status, Outcome) {
	outcome := s.unchanged(v)
	switch {
	case outcome != 0:
		return s, outcome
	case s.State == Canceled:
		outcome = WasCanceled
	default:
		outcome = DidCancel
	}
	return Status{State: Canceled, Version: v}, outcome
}

// Follow returns a version for a command that is to take effect: the one given, or, if that is
// not newer than the version of the timer, one of the millisecond after it.
func (s Status) Follow(v Version) Version {
	if v.Compare(s.Version) <= 0 {
		v.TimestampMS = s.Version.TimestampMS + 1
	}
	return v
}

// Fired returns the status after an event that was published of the timer, and
// DidReschedule, or WasReached if the event changes nothing: the timer is Reached or Expired,
// or its command came more than keep after the event, when the timer that fired had been
// purged.
func (s Status) Fired(e DueTimeReached, keep time.Duration) (Status, Outcome) {
	if s.State.Marked() || s.State != "" && s.Version.TimestampMS > e.ReachedAt.Add(keep).UnixMilli() {
		return s, WasReached
	}
	return Status{State: e.State(), Version: s.Version}, DidReschedule
}

// wasMarked returns the outcome of a command that comes after the event of the timer.
func wasMarked(s State) Outcome {
	if s == Expired {
		return WasExpired
	}
	return WasReached
}

// unchanged returns why a command of a version has no effect, or zero if it is
// newer and the timer has neither fired nor expired.
func (s Status) unchanged(v Version) Outcome {
	switch {
	case s == Status{}:
		return 0
	case v == s.Version:
		return WasSame
	case s.State.Marked():
		return wasMarked(s.State)
	case v.TimestampMS < s.Version.TimestampMS:
		return WasStale
	case v.Compare(s.Version) < 0:
		return WasTied
	}
	return 0
}

// ScheduleOutcome returns what the entry says of a [ScheduleTimer] of a version:
// DidSchedule if its due time is that of the command, WasReached, WasExpired or WasStale if the
// command has no effect, or none any more, and zero if it was not handled yet.
func (e Entry) ScheduleOutcome(v Version) Outcome {
	order := e.Version.Compare(v)
	switch {
	case order == 0:
		return DidSchedule
	case e.State.Marked():
		return wasMarked(e.State)
	case order > 0:
		return WasStale
	}
	return 0
}

// CancelOutcome returns what the entry says of a [CancelTimer] of a version: DidCancel
// if the timer is Canceled, by this command or before, WasReached, WasExpired or WasStale if
// the command has no effect, and zero if it was not handled yet.
func (e Entry) CancelOutcome(v Version) Outcome {
	switch {
	case e.State.Marked():
		return wasMarked(e.State)
	case e.State == Canceled:
		return DidCancel
	case e.Version.Compare(v) > 0:
		return WasStale
	}
	return 0
}
