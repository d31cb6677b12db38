package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ask sends a request to the JetStream API and decodes the answer into into. The client
// library sends some of these only after another request, which a user may not be
// permitted to send, and waits for its timeout if one is denied. An error of JetStream is
// a [jetstream.APIError].
func (b *Broker) ask(ctx context.Context, s *session, subject string, question, into any) error {
	subject = b.api(subject)
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	answer, err := b.request(ctx, s, subject, body)
	if errors.Is(err, natsgo.ErrNoResponders) {
		return fmt.Errorf("no answer on %s: %w", subject, jetstream.ErrJetStreamNotEnabled)
	}
	if err != nil {
		return err
	}
	var refused struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(answer.Data, &refused); err != nil {
		return fmt.Errorf("answer to %s: %w", subject, err)
	}
	if refused.Error != nil {
		return refused.Error
	}
	return json.Unmarshal(answer.Data, into)
}

// request sends a request and returns its answer, or the denial of its subject.
func (b *Broker) request(ctx context.Context, s *session, subject string, body []byte) (*natsgo.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	ctx, stop := b.requesting(ctx, subject)
	defer stop()
	answer, err := s.conn.RequestWithContext(ctx, subject, body)
	return answer, cause(ctx, err)
}

// api returns a subject of the JetStream API.
func (b *Broker) api(subject string) string {
	if b.opt.Domain == "" {
		return "$JS.API." + subject
	}
	return "$JS." + b.opt.Domain + ".API." + subject
}

// A getRequest asks for a message of the stream, as the server reads it.
type getRequest struct {
	Sequence uint64 `json:"seq,omitempty"`
	// Last asks for the last message on this subject. Sequence is 0 then.
	Last string `json:"last_by_subj,omitempty"`
	// Filter asks for the first message from Sequence on that matches. If it is empty, the
	// request is for the message at Sequence.
	Filter string `json:"next_by_subj,omitempty"`
	// Batch and MaxBytes bound the answer to a direct get.
	Batch    int `json:"batch,omitempty"`
	MaxBytes int `json:"max_bytes,omitempty"`
}

// A storedMessage is a message as the stream keeps it.
type storedMessage struct {
	Subject  string    `json:"subject"`
	Sequence uint64    `json:"seq"`
	Header   []byte    `json:"hdrs"`
	Data     []byte    `json:"data"`
	Time     time.Time `json:"time"`
}

// get returns a message of a stream. Its sequence is 0 if there is none.
func (b *Broker) get(ctx context.Context, s *session, stream string, request getRequest) (storedMessage, error) {
	var answer struct {
		Message storedMessage `json:"message"`
	}
	err := b.ask(ctx, s, "STREAM.MSG.GET."+stream, request, &answer)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		err = nil
	}
	return answer.Message, err
}
