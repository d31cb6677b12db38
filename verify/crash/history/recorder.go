package history

import (
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"
)

// A History has all that was published, seen and known.
type History struct {
	Sent     []Sent               `json:"sent"`
	Messages []Message            `json:"messages"`          // events and dead letters, as the broker keeps them
	Attempts map[string]Attempt   `json:"attempts"`          // to publish events, by event id; the broker may have dropped some as duplicates
	Accepted map[uint64]time.Time `json:"accepted"`          // when the service's ack of a command was seen, by where the broker keeps the command
	Up       []Span               `json:"up"`                // when the service was up, in order, one apart from the other
	Restarts []Restart            `json:"restarts,omitzero"` // after which it had to know its earlier publishes, in order
	Emptied  uint64               `json:"emptied,omitzero"`  // messages below this place are lost at the broker since
}

// An Attempt counts how often an event was published.
type Attempt struct {
	Published int         `json:"published"`
	Lasting   string      `json:"lasting"`        // of the first attempt
	Other     string      `json:"other,omitzero"` // of the first attempt that differs; empty if all are equal
	Again     []time.Time `json:"again,omitzero"` // when all but the first were
}

// A Span is a time in which the service was up: From is in it, To is not.
type Span struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// A Recorder collects a [History]. Its zero value is ready to use; all methods
// are safe for concurrent use.
type Recorder struct {
	mu      sync.Mutex
	history History
	lastSeq uint64
	before  int // messages that were recorded when the broker was last emptied
}

// Sent records a command whose publication is over, for good or ill.
func (r *Recorder) Sent(s Sent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.Sent = append(r.history.Sent, s)
}

// Message records an event or a dead letter. One that was recorded already, by
// its place in the stream, is ignored, so a reader may begin again.
func (r *Recorder) Message(m Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m.Seq += r.history.Emptied
	if m.Seq <= r.lastSeq {
		return
	}
	r.lastSeq = m.Seq
	r.history.Messages = append(r.history.Messages, m)
}

// Attempt records that an event was published, whether or not the broker kept
// it. Other messages are ignored: [Recorder.Message] has them too.
func (r *Recorder) Attempt(m Message) {
	var body struct {
		ID string `json:"id"`
	}
	if m.isDeadLetter() || json.Unmarshal(m.Body, &body) != nil || body.ID == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.history.Attempts == nil {
		r.history.Attempts = make(map[string]Attempt)
	}
	a, seen := r.history.Attempts[body.ID]
	text := m.Topic + " " + lasting(m.Body)
	switch {
	case !seen:
		a.Lasting = text
	case a.Other == "" && a.Lasting != text:
		a.Other = text
	}
	if seen {
		a.Again = append(a.Again, m.At)
	}
	a.Published++
	r.history.Attempts[body.ID] = a
}

// Accepted records that the service's ack of the command that the broker keeps
// at seq was seen. Only the first counts.
func (r *Recorder) Accepted(seq uint64, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.history.Accepted == nil {
		r.history.Accepted = make(map[uint64]time.Time)
	}
	seq += r.history.Emptied
	if _, seen := r.history.Accepted[seq]; !seen {
		r.history.Accepted[seq] = at
	}
}

// Up records a time in which the service was up. Of several instances each may
// report: the service is up if any of them is.
func (r *Recorder) Up(from, to time.Time) {
	if !from.Before(to) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []Span // a new slice: a history that was returned keeps the old one
	for _, s := range r.history.Up {
		if s.To.Before(from) || s.From.After(to) {
			all = append(all, s)
			continue
		}
		from, to = earlier(s.From, from), later(s.To, to)
	}
	all = append(all, Span{From: from, To: to})
	slices.SortFunc(all, func(a, b Span) int { return a.From.Compare(b.From) })
	r.history.Up = all
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// Count returns how many commands were sent, and how many messages seen since the
// broker was last emptied.
func (r *Recorder) Count() (sent, messages int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.history.Sent), len(r.history.Messages) - r.before
}

// History returns the records so far. It does not change any more; its
// contents must not be changed.
func (r *Recorder) History() History {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.history
	h.Sent = h.Sent[:len(h.Sent):len(h.Sent)]
	h.Messages = h.Messages[:len(h.Messages):len(h.Messages)]
	h.Up = h.Up[:len(h.Up):len(h.Up)]
	h.Restarts = h.Restarts[:len(h.Restarts):len(h.Restarts)]
	h.Attempts = maps.Clone(h.Attempts)
	h.Accepted = maps.Clone(h.Accepted)
	return h
}
