package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker"
)

// directAtOnce is the most messages of one direct get.
const directAtOnce = 1000

var (
	// errIndirect says that no direct get returns these messages: an older server answers, or a
	// mirror, a permission is missing, or a message has broken headers.
	errIndirect = errors.New("no direct get")
	// errGap says that replies to a direct get did not arrive.
	errGap = errors.New("messages are missing in the answer")
)

// getDirect returns the next messages by one direct get, which costs far less than a request
// for each (NATS 2.11). Any replica may answer it, so the newest messages may be missing at
// the end. None is missing before them: the replies name their predecessors.
func (r *streamReader) getDirect(ctx context.Context, s *session) (batch []broker.Stored, err error) {
	subject := r.api("DIRECT.GET." + r.opt.Stream)
	ctx, stop := r.requesting(ctx, subject)
	defer stop()
	body, err := json.Marshal(getRequest{Sequence: r.next, Filter: r.filter, Batch: directAtOnce, MaxBytes: readBytes})
	if err != nil {
		return nil, err
	}
	replies, err := s.conn.SubscribeSync(s.conn.NewInbox())
	if err != nil {
		return nil, err
	}
	defer func() { _ = replies.Unsubscribe() }() // which fails without a connection
	if err := s.conn.PublishRequest(subject, replies.Subject, body); err != nil {
		return nil, err
	}
	for last := uint64(0); ; {
		waiting, cancel := context.WithTimeout(ctx, apiTimeout) // of each, since a slow link takes long for all
		reply, err := replies.NextMsgWithContext(waiting)
		cancel()
		if err = cause(ctx, err); errors.Is(err, broker.ErrDenied) || errors.Is(err, natsgo.ErrNoResponders) {
			err = fmt.Errorf("%w: %w", errIndirect, err)
		}
		if err != nil {
			return nil, err
		}
		before, _ := strconv.ParseUint(added(reply, jetstream.LastSequenceHeader), 10, 64)
		switch from := added(reply, jetstream.StreamHeader); {
		case from == "" && reply.Header.Get("Status") == "404": // there are no more
			return nil, nil
		case added(reply, "Nats-Num-Pending") == "" || from != "" && from != r.opt.Stream:
			return nil, fmt.Errorf("%w: stream %q, status %q", errIndirect, from, reply.Header.Get("Status"))
		case before != last:
			return nil, fmt.Errorf("%w: after %d, not %d", errGap, last, before)
		case from == "": // the end of the batch
			r.next = max(r.next, last+1)
			return batch, nil
		}
		m := storedMessage{Subject: added(reply, jetstream.SubjectHeader), Data: reply.Data}
		var broken [2]error
		m.Sequence, broken[0] = strconv.ParseUint(added(reply, jetstream.SequenceHeader), 10, 64)
		m.Time, broken[1] = time.Parse(time.RFC3339Nano, added(reply, jetstream.TimeStampHeaer))
		if err := errors.Join(broken[:]...); err != nil || m.Sequence < max(r.next, last+1) {
			return nil, errors.Join(errIndirect, err)
		}
		if m.Sequence > r.end {
			r.next = m.Sequence
			return batch, nil
		}
		batch = append(batch, r.stored(m, reply.Header))
		last = m.Sequence
	}
}

// added returns a header that the server has added to a message: behind one of its producer
// with the same name.
func added(m *natsgo.Msg, name string) string {
	values := m.Header[name]
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}
