package nats

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/semaphore"

	"github.com/event-service-agent/timer-service/internal/failpoint"
)

// Acks sends messages to the stream and receives its acks, for all calls of
// Publish. The client library does that too, with two channels, an entry in a
// map and an answer decoded by reflection for every message (nats.go v1.55.0):
// two thirds of what publishing cost (measured 2026-11).
//
// The stream answers to a subject that names the call and the place of the
// message in it.
type acks struct {
	conn   *natsgo.Conn
	inbox  string // subjects begin with it
	stored []byte // how the answer begins to a message that was stored
	room   *semaphore.Weighted

	mu      sync.Mutex
	calls   map[uint64]*sending
	last    uint64
	answers *natsgo.Subscription // nil until the first call
}

func newAcks(conn *natsgo.Conn, stream string) *acks {
	return &acks{
		conn:   conn,
		inbox:  conn.NewInbox() + ".",
		stored: fmt.Appendf(nil, `{"stream":%q,`, stream),
		room:   semaphore.NewWeighted(maxUnacked),
		calls:  make(map[uint64]*sending),
	}
}

// close lets go of the connection, which may go on without us, until the next
// call.
func (a *acks) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.answers != nil {
		_ = a.answers.Unsubscribe() // it fails only if the connection is closed
		a.answers = nil             // the next call listens again
	}
}

// A sending is messages on their way to the stream, at most maxUnacked.
type sending struct {
	messages []*natsgo.Msg
	done     chan struct{} // closed when all have an answer

	mu       sync.Mutex
	answered []bool
	left     int // messages without an answer
	known    []claim
	failed   failures
}

// send publishes messages one behind the other and waits for all answers. After
// the first that can't be sent it sends no more. It returns the messages whose
// ids the stream knew, and adds to failed those that were not stored.
func (a *acks) send(ctx context.Context, messages []*natsgo.Msg, failed *failures) (known []claim) {
	for len(messages) > 0 {
		n := min(len(messages), maxUnacked)
		if err := a.room.Acquire(ctx, int64(n)); err != nil {
			failed.add(len(messages), errNoAck)
			return known
		}
		s := a.sendSome(ctx, messages[:n])
		a.room.Release(int64(n))
		known = append(known, s.known...)
		failed.merge(s.failed)
		if messages = messages[n:]; len(s.failed.errs) > 0 {
			if len(messages) > 0 {
				failed.add(len(messages), errors.New("not sent after that"))
			}
			return known
		}
	}
	return known
}

// errNoAck says that it is not known whether a message was stored.
var errNoAck = fmt.Errorf("no ack within %v", publishTimeout)

func (a *acks) sendSome(ctx context.Context, messages []*natsgo.Msg) *sending {
	connected, end := whileConnected(ctx, a.conn)
	defer end()
	s := &sending{messages: messages, done: make(chan struct{}), answered: make([]bool, len(messages)), left: len(messages)}
	id, err := a.open(s)
	if err != nil {
		s.giveUp(0, err)
		return s
	}
	defer a.forget(id)
	prefix := a.inbox + strconv.FormatUint(id, 36) + "."
	for i, m := range messages {
		m.Reply = prefix + strconv.Itoa(i)
		err := a.conn.PublishMsg(m)
		m.Reply = ""
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			s.giveUp(i, refusal(err))
			break
		}
		failpoint.Here("publishing")
	}
	select {
	case <-s.done:
	case <-connected.Done():
		err := errNoAck
		if ctx.Err() == nil {
			err = ErrNotConnected
		}
		s.giveUp(0, err)
	}
	return s
}

// open notes a call, and returns its number.
func (a *acks) open(s *sending) (uint64, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.answers == nil {
		sub, err := a.conn.Subscribe(a.inbox+"*.*", a.receive)
		if err != nil {
			return 0, err
		}
		a.answers = sub
	}
	a.last++
	a.calls[a.last] = s
	return a.last, nil
}

func (a *acks) forget(id uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.calls, id)
}

// receive takes one answer. One that comes too late is thrown away, and so is
// what no stream would send.
func (a *acks) receive(m *natsgo.Msg) {
	call, place, _ := strings.Cut(strings.TrimPrefix(m.Subject, a.inbox), ".")
	id, err := strconv.ParseUint(call, 36, 64)
	if err != nil {
		return
	}
	i, err := strconv.ParseUint(place, 10, 31)
	if err != nil {
		return
	}
	a.mu.Lock()
	s := a.calls[id]
	a.mu.Unlock()
	if s != nil && i < uint64(len(s.messages)) {
		s.answer(int(i), m, a.stored)
	}
}

// answer notes what became of a message.
func (s *sending) answer(i int, m *natsgo.Msg, stored []byte) {
	var ack pubAck
	var err error
	if !plain(m, stored) {
		ack, err = readAck(m)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answered[i] {
		return
	}
	s.answered[i] = true
	switch {
	case err != nil:
		s.failed.add(1, refusal(err))
	case ack.Duplicate:
		s.known = append(s.known, claim{message: s.messages[i], sequence: ack.Sequence})
	}
	if s.left--; s.left == 0 {
		close(s.done)
	}
}

// giveUp notes that the messages from a place on will get no answer.
func (s *sending) giveUp(from int, err error) {
	s.giveUpOn(func(i int) bool { return i >= from }, err)
}

// giveUpOn notes that some messages will get no answer.
func (s *sending) giveUpOn(these func(i int) bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for i := range s.answered {
		if !s.answered[i] && these(i) {
			s.answered[i] = true
			n++
		}
	}
	if n == 0 {
		return
	}
	s.failed.add(n, err)
	if s.left -= n; s.left == 0 {
		close(s.done)
	}
}

// A pubAck is what the server answers, see the NATS JetStream wire API.
type pubAck struct {
	Stream    string              `json:"stream"`
	Sequence  uint64              `json:"seq"`
	Duplicate bool                `json:"duplicate"`
	Error     *jetstream.APIError `json:"error"`
}

// plain reports whether an answer says that the message was stored, and nothing
// else: all but a few do, and decoding takes ten times as long.
func plain(m *natsgo.Msg, stored []byte) bool {
	return bytes.HasPrefix(m.Data, stored) && !bytes.Contains(m.Data, []byte("duplicate")) && !bytes.Contains(m.Data, []byte("error"))
}

func readAck(m *natsgo.Msg) (ack pubAck, err error) {
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		return ack, jetstream.ErrNoStreamResponse
	}
	if err := json.Unmarshal(m.Data, &ack); err != nil {
		return ack, fmt.Errorf("%w: %w", jetstream.ErrInvalidJSAck, err)
	}
	switch {
	case ack.Error != nil:
		return ack, ack.Error
	case ack.Stream == "":
		return ack, jetstream.ErrInvalidJSAck
	}
	return ack, nil
}
