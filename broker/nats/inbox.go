package nats

import (
	"context"

	natsgo "github.com/nats-io/nats.go"
)

// An inbox is where the server sends the messages that it was asked for. It
// outlives reconnects: a server that did not notice the end of a connection
// goes on answering what was asked for there, and what is not received comes
// again after the ack wait only.
type inbox struct {
	conn     *natsgo.Conn
	sub      *natsgo.Subscription
	messages chan *natsgo.Msg
}

// listen opens the inbox, unless it is open.
func (s *subscription) listen(conn *natsgo.Conn) (*inbox, error) {
	if s.inbox != nil && s.inbox.conn == conn {
		return s.inbox, nil
	}
	s.closeInbox()
	messages := make(chan *natsgo.Msg, 2*maxHeld) // all that the server may send, and statuses
	sub, err := conn.ChanSubscribe(conn.NewInbox(), messages)
	if err != nil {
		return nil, err
	}
	s.inbox = &inbox{conn: conn, sub: sub, messages: messages}
	return s.inbox, nil
}

// leave closes the inbox, and receives what it holds and what the server sends
// until it knows. An inbox that is closed on this side first throws that away.
//
// A client that reconnects holds its lock until a server has answered (nats.go v1.55.0).
// So the calls are made by a goroutine that is waited for no longer than a stop may take.
func (s *subscription) leave() {
	in := s.inbox
	if in == nil {
		return
	}
	s.inbox = nil
	// In process hardly anything is on its way. There it is not drained, since
	// that takes a timer which may be of another synctest bubble (nats.go v1.55.0).
	remote := in.conn.Opts.InProcessServer == nil
	ending, cancel := context.WithTimeout(context.Background(), stopTimeout)
	go func() {
		defer cancel()
		if remote && in.sub.Drain() == nil { // it fails only if the connection is closed
			_ = in.conn.FlushWithContext(ending) // if it fails, what is on the wire comes again
		}
		_ = in.sub.Unsubscribe() // as above
	}()
	<-ending.Done()
	s.empty(&puller{conn: in.conn, waiting: &s.waiting}, in.messages)
}

// closeInbox closes the inbox, if it is open.
func (s *subscription) closeInbox() {
	if s.inbox != nil {
		_ = s.inbox.sub.Unsubscribe() // it fails only if the connection is closed
		s.inbox = nil
	}
}
