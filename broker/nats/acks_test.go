package nats

import (
	"errors"
	"testing"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker"
)

// TestAnswersFromStrangers sends what no stream would to the inbox for acks:
// whoever learns its name may.
func TestAnswersFromStrangers(t *testing.T) {
	t.Parallel()
	a := &acks{inbox: "_INBOX.x.", stored: []byte(`{"stream":"svc",`), calls: make(map[uint64]*sending)}
	s := &sending{messages: make([]*natsgo.Msg, 2), answered: make([]bool, 2), left: 2, done: make(chan struct{})}
	a.calls[36] = s
	for _, rest := range []string{"", ".", "10", "10.", "10.-1", "10.2", "10.99999999999999999999", "-10.0", "zz.0", "10.0.0", "10.x"} {
		a.receive(&natsgo.Msg{Subject: a.inbox + rest, Data: []byte(`{"stream":"svc","seq":1}`)})
	}
	if s.left != 2 {
		t.Fatalf("%d messages without an answer, want 2", s.left)
	}
	stored := &natsgo.Msg{Subject: a.inbox + "10.1", Data: []byte(`{"stream":"svc","seq":7}`)}
	a.receive(stored)
	a.receive(stored) // counts once
	if s.left != 1 {
		t.Fatalf("%d messages without an answer, want 1", s.left)
	}
	a.receive(&natsgo.Msg{Subject: a.inbox + "10.0", Data: []byte(`{"stream":"svc","seq":7,"duplicate":true}`)})
	<-s.done
	if len(s.known) != 1 || s.known[0].sequence != 7 || s.failed.messages() != 0 {
		t.Errorf("known %v, failed %v; want one that is known as 7", s.known, s.failed.errs)
	}
}

// TestAnswersThatAreNoAck has each of them fail its message.
func TestAnswersThatAreNoAck(t *testing.T) {
	t.Parallel()
	unavailable := &natsgo.Msg{Header: natsgo.Header{"Status": {"503"}}}
	if _, err := readAck(unavailable); !errors.Is(err, jetstream.ErrNoStreamResponse) {
		t.Errorf("nobody listens: %v", err)
	}
	for _, body := range []string{"", "{", "{}", `{"seq":1}`, `[]`} {
		if _, err := readAck(&natsgo.Msg{Data: []byte(body)}); !errors.Is(err, jetstream.ErrInvalidJSAck) {
			t.Errorf("%q: %v", body, err)
		}
	}
	refused := &natsgo.Msg{Data: []byte(`{"error":{"code":400,"err_code":10054,"description":"message size exceeds maximum allowed"},"stream":"svc","seq":0}`)}
	if plain(refused, []byte(`{"stream":"svc",`)) {
		t.Error("an error passes for an ack")
	}
	if _, err := readAck(refused); !errors.Is(refusal(err), broker.ErrRefused) {
		t.Errorf("too large: %v", err)
	}
}
