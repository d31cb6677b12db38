package history

import (
	"fmt"
	"time"
)

// A checker holds the state of a running [Check].
type checker struct {
	History
	verdict     Verdict
	timers      map[Key]*timer
	order       []*timer               // in the order of their first command
	ids         map[string]generation  // whose an event id is
	stored      map[string][]time.Time // when the broker stored an event, by its id
	deadLetters []Message

	overall, whileUp []time.Duration
}

// A timer is all that concerns one key.
type timer struct {
	key      Key
	commands []Sent // valid ones, in the order of their publication
	events   []event
}

// A generation is what an event says of the command behind it.
type generation struct {
	key         Key
	dueAt       time.Time
	correlation string
}

func (e event) generation() generation {
	return generation{key: e.Key, dueAt: e.dueAt, correlation: e.correlation}
}

// candidates returns the commands, with their copies, that can be behind an
// event: they ask for what it says, and were there before it.
func (t *timer) candidates(e event) (all []Sent) {
	for _, s := range t.commands {
		asked := s.Kind == Schedule && s.DueAt.Equal(e.dueAt) && s.Correlation == e.correlation
		before := s.Acked && s.Seq < e.Seq || !s.Acked && !s.SentAt.After(e.At)
		if asked && before {
			all = append(all, s)
		}
	}
	return all
}

// judge applies the rules that concern a key as a whole.
func (c *checker) judge(t *timer) {
	c.checkEnd(t)
	if len(t.events) == 0 {
		return
	}
	c.checkRepetition(t)
	judged := make(map[generation]bool)
	for _, e := range t.events {
		if !judged[e.generation()] {
			judged[e.generation()] = true
			c.checkSuperseded(t, e)
		}
	}
	c.measure(t, t.events[0])
}

// checkEnd finds timers that neither fired nor were canceled.
func (c *checker) checkEnd(t *timer) {
	newest, scheduled := newestAcked(t.commands)
	if !scheduled {
		return
	}
	c.verdict.Timers++
	switch {
	case len(t.events) > 0:
		c.verdict.Fired++
	case newest.Kind == Cancel || t.perhapsCanceled(newest.Version):
		c.verdict.Canceled++
	default:
		c.verdict.Add(Lost, "%s, due at %s (%s, id %s), has no event; %s", t.key, clock(newest.DueAt), newest.Note, newest.ID, c.story(newest))
	}
}

// newestAcked returns the newest command that the broker confirmed, and whether
// it confirmed a ScheduleTimer at all.
func newestAcked(commands []Sent) (newest Sent, scheduled bool) {
	for _, s := range commands {
		if !s.Acked {
			continue
		}
		scheduled = scheduled || s.Kind == Schedule
		if !newest.Acked || s.Version.Compare(newest.Version) > 0 {
			newest = s
		}
	}
	return newest, scheduled
}

// perhapsCanceled reports whether a CancelTimer newer than v may have arrived
// though the broker never confirmed it.
func (t *timer) perhapsCanceled(v Version) bool {
	for _, s := range t.commands {
		if s.Kind == Cancel && !s.Acked && s.Version.Compare(v) > 0 {
			return true
		}
	}
	return false
}

// story says how far a command is known to have come.
func (c *checker) story(s Sent) string {
	if at, ok := c.Accepted[s.Seq]; ok {
		return fmt.Sprintf("the broker has it at %d, the service acked it at %s", s.Seq, clock(at))
	}
	return fmt.Sprintf("the broker has it at %d, the service never acked it", s.Seq)
}

// checkRepetition finds what happened more often than once.
func (c *checker) checkRepetition(t *timer) {
	type facts struct {
		ids     map[string]string // what must be equal, by id
		several bool              // whether more than one version fits
	}
	seen := make(map[generation]facts)
	for _, e := range t.events {
		g := e.generation()
		f, again := seen[g]
		if !again {
			if len(seen) > 0 {
				c.verdict.Add(TwoVersions, "%s fired for %s and for %s", t.key, clock(t.events[0].dueAt), clock(e.dueAt))
			}
			seen[g] = facts{
				ids:     map[string]string{e.id: lasting(e.Body)},
				several: len(versions(t.candidates(e))) > 1,
			}
			continue
		}
		body, known := f.ids[e.id]
		switch {
		case !known && f.several:
			c.verdict.Add(TwoVersions, "%s fired for two versions with the due time %s", t.key, clock(e.dueAt))
		case !known:
			c.verdict.Add(SecondID, "%s, due at %s, fired as %s and as %s", t.key, clock(e.dueAt), t.events[0].id, e.id)
		case body != lasting(e.Body):
			c.verdict.Add(Changed, "%s came as %s and as %s", e.id, body, lasting(e.Body))
		}
		if known {
			c.verdict.Add(Duplicate, "%s, due at %s, came again at %d", t.key, clock(e.dueAt), e.Seq)
		}
		f.ids[e.id] = lasting(e.Body)
	}
}

// versions returns the first sending of each version.
func versions(commands []Sent) map[Version]time.Time {
	first := make(map[Version]time.Time)
	for _, s := range commands {
		if at, seen := first[s.Version]; !seen || s.SentAt.Before(at) {
			first[s.Version] = s.SentAt
		}
	}
	return first
}

// checkSuperseded finds a newer command that the service had acked before
// the version behind the event was due, or was there at all. From then on the
// version could not fire.
func (c *checker) checkSuperseded(t *timer, e event) {
	var newer Sent
	for version, sentAt := range versions(t.candidates(e)) {
		limit := later(e.dueAt, sentAt)
		found := false
		for _, s := range t.commands {
			at, accepted := c.Accepted[s.Seq]
			if s.Acked && accepted && at.Before(limit) && s.Version.Compare(version) > 0 {
				newer, found = s, true
				break
			}
		}
		if !found {
			return
		}
	}
	c.verdict.Add(Superseded, "%s fired for %s, but a newer %s (%s, id %s) was there: %s",
		t.key, clock(e.dueAt), newer.Kind, newer.Note, newer.ID, c.story(newer))
}

// measure notes how late a timer fired.
func (c *checker) measure(t *timer, e event) {
	var first Sent // the earliest command that can be behind the event
	for _, s := range t.candidates(e) {
		if first.SentAt.IsZero() || s.SentAt.Before(first.SentAt) {
			first = s
		}
	}
	from := later(e.dueAt, first.SentAt)
	late := e.At.Sub(from)
	c.overall = append(c.overall, late)
	if c.upAt(from) {
		c.whileUp = append(c.whileUp, late)
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05.000") }
