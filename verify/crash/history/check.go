package history

import (
	"slices"
	"strings"
	"time"
)

// Check judges a history that is complete: publishing is over, and the service
// had time to come to rest. A finding of [Duplicate] or [Repeated] is no violation if
// a fault explains it; the caller says so, see [Verdict.Excuse].
func Check(h History) Verdict {
	c := checker{
		History: h,
		verdict: newVerdict(),
		timers:  make(map[Key]*timer),
		ids:     make(map[string]generation),
		stored:  make(map[string][]time.Time),
	}
	c.forget()
	c.gather()
	for _, m := range h.Messages {
		switch {
		case m.isDeadLetter():
			c.deadLetters = append(c.deadLetters, m)
		default:
			c.event(m)
		}
	}
	for _, t := range c.order {
		c.judge(t)
	}
	c.checkDeadLetters()
	c.checkAttempts()
	c.checkRefired()
	c.verdict.Overall = NewLateness(c.overall)
	c.verdict.WhileUp = NewLateness(c.whileUp)
	return c.verdict
}

// gather counts the sent messages and sorts them by key.
func (c *checker) gather() {
	for _, s := range c.Sent {
		c.verdict.Sent++
		if s.Acked {
			c.verdict.Acked++
			if _, ok := c.Accepted[s.Seq]; ok {
				c.verdict.Accepted++
			}
		}
		if s.Kind != Schedule && s.Kind != Cancel {
			continue
		}
		t := c.timers[s.Key]
		if t == nil {
			t = &timer{key: s.Key}
			c.timers[s.Key] = t
			c.order = append(c.order, t)
		}
		t.commands = append(t.commands, s)
	}
}

// event judges a message that is no dead letter by itself, and hands it to its
// timer.
func (c *checker) event(m Message) {
	c.verdict.Events++
	e, err := parseEvent(m)
	if err != nil {
		c.verdict.Add(Malformed, "message %d on %s: %v: %s", m.Seq, m.Topic, err, m.Body)
	}
	if e.Key == (Key{}) {
		return
	}
	c.stored[e.id] = append(c.stored[e.id], e.At)
	if m.Topic != EventsTopic(e.Tenant) {
		c.verdict.Add(WrongTopic, "message %d of tenant %s arrived on %s", m.Seq, e.Tenant, m.Topic)
	}
	if e.reachedAt.Before(e.dueAt) || e.At.Before(e.dueAt) {
		c.verdict.Add(Early, "%s was due at %s, says it was reached at %s, and arrived at %s",
			e.Key, clock(e.dueAt), clock(e.reachedAt), clock(e.At))
	}
	if e.reachedAt.After(e.At) {
		c.verdict.Add(Malformed, "%s says it was reached at %s, but arrived at %s", e.Key, clock(e.reachedAt), clock(e.At))
	}
	t := c.timers[e.Key]
	if t == nil || len(t.candidates(e)) == 0 {
		c.verdict.Add(Invented, "message %d for %s, due at %s, correlation %q, answers nothing that was sent before it",
			m.Seq, e.Key, clock(e.dueAt), e.correlation)
		return
	}
	c.shared(e)
	t.events = append(t.events, e)
}

// shared finds events of different generations under one id.
func (c *checker) shared(e event) {
	g := e.generation()
	first, seen := c.ids[e.id]
	switch {
	case !seen:
		c.ids[e.id] = g
	case first != g:
		c.verdict.Add(SharedID, "%s is the id of events of %s due at %s and of %s due at %s",
			e.id, first.key, clock(first.dueAt), g.key, clock(g.dueAt))
	}
}

// checkAttempts judges the publishes that were observed, the ones included that the broker
// dropped: it knows an event by its id for minutes, so a repetition is
// seldom seen in the stream.
func (c *checker) checkAttempts() {
	ids := make([]string, 0, len(c.Attempts))
	for id, a := range c.Attempts {
		c.verdict.Republished += a.Published - 1
		c.verdict.MostOften = max(c.verdict.MostOften, a.Published)
		if a.Published > 1 {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		a := c.Attempts[id]
		c.verdict.Add(Repeated, "event %s was published %d times", id, a.Published)
		if a.Other != "" {
			c.verdict.Add(Changed, "event %s was published as %s and as %s", id, a.Lasting, a.Other)
		}
	}
}

// checkDeadLetters compares dead letters with what should have become one. Bodies
// may repeat, so they are counted.
func (c *checker) checkDeadLetters() {
	sent := make(map[string][]Sent)
	for _, s := range c.Sent {
		sent[string(s.Body)] = append(sent[string(s.Body)], s)
	}
	deadLettered := make(map[string]int)
	for _, m := range c.deadLetters {
		if m.Header[ReasonHeader] == "" {
			c.verdict.Add(Malformed, "dead letter %d on %s gives no reason", m.Seq, m.Topic)
		}
		originals := sent[string(m.Body)]
		switch {
		case len(originals) == 0:
			c.verdict.Add(Invented, "dead letter %d on %s is of nothing that was sent: %s", m.Seq, m.Topic, excerpt(m.Body))
			continue
		case originals[0].Kind != Poison:
			c.verdict.Add(Refused, "%s of %s (%s) is dead letter %d: %s",
				originals[0].Kind, originals[0].Key, originals[0].Note, m.Seq, m.Header[ReasonHeader])
			continue
		}
		deadLettered[string(m.Body)]++
		if !slices.Contains(originals[0].DeadLetterTopics, m.Topic) {
			c.verdict.Add(WrongTopic, "dead letter %d (%s) arrived on %s, not on %s",
				m.Seq, originals[0].Note, m.Topic, strings.Join(originals[0].DeadLetterTopics, " or "))
		}
	}
	for _, s := range c.Sent {
		if s.Kind != Poison || !s.Acked {
			continue
		}
		c.verdict.Poison++
		if deadLettered[string(s.Body)] == 0 {
			c.verdict.Add(NoDeadLetter, "poison at %d (%s) has no dead letter: %s", s.Seq, s.Note, excerpt(s.Body))
			continue
		}
		deadLettered[string(s.Body)]--
		c.verdict.DeadLettered++
	}
}

func excerpt(body []byte) string {
	const limit = 200
	if len(body) > limit {
		return string(body[:limit]) + "…"
	}
	return string(body)
}
