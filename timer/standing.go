package timer

// A Standing is where a timer stands when a command meets it. The zero value is
// that of a key that has no timer.
type Standing struct {
	State   State
	Version Version // of the newest command that took effect
}

// Schedule returns what a [ScheduleTimer] of a version does to the timer, and
// where it stands then.
func (s Standing) Schedule(v Version) (Standing, Outcome) {
	outcome := s.unchanged(v)
	switch {
	case outcome != 0:
		return s, outcome
	case s.State == Scheduled:
		outcome = DidReschedule
	default:
		outcome = DidSchedule
	}
	return Standing{State: Scheduled, Version: v}, outcome
}

// Cancel returns what a [CancelTimer] of a version does to the timer, and where
// it stands then. One that is Canceled already gets the newer version, else an
// older ScheduleTimer that the command supersedes could still fire.
func (s Standing) Cancel(v Version) (Standing, Outcome) {
	outcome := s.unchanged(v)
	switch {
	case outcome != 0:
		return s, outcome
	case s.State == Canceled:
		outcome = WasCanceled
	default:
		outcome = DidCancel
	}
	return Standing{State: Canceled, Version: v}, outcome
}

// unchanged returns why a command of a version does nothing, or zero if it is
// newer and the timer has not fired.
func (s Standing) unchanged(v Version) Outcome {
	switch {
	case s == Standing{}:
		return 0
	case v == s.Version:
		return WasSame
	case s.State == Reached:
		return WasReached
	case v.Compare(s.Version) < 0:
		return WasStale
	}
	return 0
}
