package nats

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/event-service-agent/timer-service/broker"
)

// Pages are the messages of a consumer that acks nothing, in batches.
type pages struct {
	conn    *natsgo.Conn
	subject string // where to ask
	inbox   string // where messages go
	in      <-chan *natsgo.Msg
	log     string // that sequences are of
	asked   int    // messages of the batch that comes
	order   uint64 // of the last message among those of the consumer
	end     uint64 // sequence of the last message to read
	passed  bool   // the end was reached
}

// ask asks for a batch of what there is now. A message by itself may be of any size.
func (p *pages) ask(messages int) error {
	request := struct {
		Batch    int  `json:"batch"`
		MaxBytes int  `json:"max_bytes,omitempty"`
		NoWait   bool `json:"no_wait"`
	}{Batch: messages, NoWait: true}
	if messages > 1 {
		request.MaxBytes = max(pullBytes, int(p.conn.MaxPayload())+64<<10)
	}
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	p.asked = messages
	return p.conn.PublishRequest(p.subject, p.inbox, body)
}

// read reads the batch that was asked for, and returns how many messages to ask for
// next: 0 if there are no more now.
func (p *pages) read(ctx context.Context) (batch []broker.Stored, more int, err error) {
	silence := time.NewTimer(apiTimeout)
	defer silence.Stop()
	for len(batch) < p.asked {
		var m *natsgo.Msg
		select {
		case m = <-p.in:
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		case <-silence.C:
			return nil, 0, fmt.Errorf("%w: the consumer is silent", errReplay)
		}
		if !fromStream(m) {
			if isCompleted(m) {
				continue
			}
			more, err = p.status(m, len(batch))
			return batch, more, err
		}
		meta, err := m.Metadata()
		if err != nil || meta.Sequence.Consumer != p.order+1 {
			return nil, 0, fmt.Errorf("%w: a message is missing", errReplay)
		}
		p.order++
		silence.Reset(apiTimeout)
		p.passed = meta.Sequence.Stream >= p.end
		if meta.Sequence.Stream <= p.end {
			msg := unmarshal(m.Subject, m.Header, m.Data)
			msg.Metadata[broker.MetaPosition] = strconv.FormatUint(meta.Sequence.Stream, 10)
			batch = append(batch, broker.Stored{Message: msg, Log: p.log, Number: number(meta.Sequence.Stream), At: meta.Timestamp.UTC()})
		}
		if p.passed {
			return batch, 0, nil
		}
	}
	return batch, replayBatch, nil
}

// isCompleted reports whether a status says that all messages of a batch were sent, which
// is known by their number: it comes behind them, so in front of the next batch.
func isCompleted(m *natsgo.Msg) bool {
	return m.Header.Get("Status") == "409" && strings.EqualFold(m.Header.Get("Description"), "batch completed")
}

// status reads why the server ends a batch.
func (p *pages) status(m *natsgo.Msg, came int) (more int, err error) {
	status, description := m.Header.Get("Status"), m.Header.Get("Description")
	switch d := strings.ToLower(description); {
	case status == "404", status == "408":
		return 0, nil
	case status == "409" && d == "message size exceeds maxbytes":
		if came == 0 {
			return 1, nil
		}
		return replayBatch, nil
	}
	return 0, fmt.Errorf("%w: the consumer says %s %s", errReplay, status, description)
}
