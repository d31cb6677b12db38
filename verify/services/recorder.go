package services

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/verify/services/judge"
)

// A recorder writes a history, and knows which events are owed.
type recorder struct {
	mu       sync.Mutex
	file     *os.File
	out      *bufio.Writer
	began    time.Time
	failed   error
	answered map[answerKey]bool
	keys     map[int]string     // of commands, by number
	owed     map[string]command // the newest of each key that waits for its event
	sent     int
	seen     int
}

type answerKey struct {
	kind string
	op   int
}

// record begins a history in a file.
func record(path, service string) (*recorder, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	r := &recorder{
		file: file, out: bufio.NewWriter(file), began: time.Now(),
		answered: make(map[answerKey]bool), keys: make(map[int]string), owed: make(map[string]command),
	}
	r.write(judge.Line{Kind: judge.Begin, Format: 1, Service: service})
	return r, nil
}

// write stamps a line and writes it. The caller holds mu, or is the only one.
func (r *recorder) write(l judge.Line) {
	now := time.Now()
	l.Wall, l.Mono = now.UnixMicro(), now.Sub(r.began).Microseconds()
	text, err := json.Marshal(l)
	if err == nil {
		_, err = r.out.Write(append(text, '\n'))
	}
	r.failed = errors.Join(r.failed, err)
}

// noteSent notes a command, before it is sent.
func (r *recorder) noteSent(c command) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := judge.Line{Kind: judge.Sent, Op: c.op, Do: c.do, Key: c.key}
	if c.do != judge.Cancel {
		l.Due = c.due.UnixMicro()
	}
	r.keys[c.op] = c.key
	r.sent++
	r.write(l)
}

// noteAnswer notes the answer to a command. Only the first of a kind counts.
func (r *recorder) noteAnswer(c command, a answer) {
	switch a {
	case inForce:
		r.note(judge.Acked, c.op, false)
	case pending:
		r.note(judge.Acked, c.op, true)
	case refused:
		r.note(judge.Refused, c.op, false)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case a == refused:
	case c.do == judge.Cancel:
		delete(r.owed, c.key)
	case c.do == judge.Move:
		if _, waits := r.owed[c.key]; waits { // otherwise the old time has fired
			r.owed[c.key] = c
		}
	case !r.answered[answerKey{judge.Seen, c.op}]:
		r.owed[c.key] = c
	}
}

// noteApplied and noteRefused note what a service says later of a command.
func (r *recorder) noteApplied(op int) { r.note(judge.Applied, op, false) }

func (r *recorder) noteRefused(op int) { r.note(judge.Refused, op, false) }

func (r *recorder) note(kind string, op int, pending bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, sent := r.keys[op]; sent && !r.answered[answerKey{kind, op}] {
		r.answered[answerKey{kind, op}] = true
		r.write(judge.Line{Kind: kind, Op: op, Pending: pending})
	}
}

// noteSeen notes an event.
func (r *recorder) noteSeen(key string, op int, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.write(judge.Line{Kind: judge.Seen, Key: key, Op: op, ID: id})
	r.answered[answerKey{judge.Seen, op}] = true
	r.seen++
	delete(r.owed, key)
}

func (r *recorder) noteFault(n int, what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.write(judge.Line{Kind: judge.Fault, N: n, What: what})
}

func (r *recorder) noteHealed(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.write(judge.Line{Kind: judge.Healed, N: n})
}

// counts returns how many commands were sent, how many events came, and how many are owed.
func (r *recorder) counts() (sent, seen, owed int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sent, r.seen, len(r.owed)
}

// overdue reports whether an event has been owed for longer than some time.
func (r *recorder) overdue(by time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	limit := time.Now().Add(-by)
	for _, c := range r.owed {
		if c.due.Before(limit) {
			return true
		}
	}
	return false
}

// close ends the history.
func (r *recorder) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.write(judge.Line{Kind: judge.End})
	return errors.Join(r.failed, r.out.Flush(), r.file.Close())
}

// fail has the run end with an error.
func (r *recorder) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = errors.Join(r.failed, err)
}
