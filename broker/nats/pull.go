package nats

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	natsgo "github.com/nats-io/nats.go"
)

const (
	pullBytes = 8 << 20 // bytes asked for at once, unless one message may be larger
	// pullExpires is how long the server keeps a request. For as long it sends messages to
	// a process that is frozen.
	pullExpires   = 5 * time.Second
	pullHeartbeat = 2 * time.Second // how often the server confirms that it keeps a request
)

// A puller asks a consumer for messages. The client library's own puller has two faults
// (ADR 0006). When it stops it throws away its buffered messages, which are then
// redelivered only after the ack wait. And it takes an empty message with a header
// "Status", which any producer may send, for a message of the server.
type puller struct {
	conn    *natsgo.Conn
	subject string        // subject of requests
	inbox   string        // subject that messages are sent to
	open    int           // messages that were asked for and did not come yet
	large   bool          // the next message is larger than maxBytes
	noWait  bool          // requests are for available messages only; the server keeps none
	waiting *atomic.Int64 // most requests that the server may keep now
}

// A pullRequest is a request as the server reads it, see the NATS ADR-13.
type pullRequest struct {
	Batch     int           `json:"batch"`
	MaxBytes  int           `json:"max_bytes,omitempty"` // 0: no limit
	Expires   time.Duration `json:"expires,omitempty"`
	Heartbeat time.Duration `json:"idle_heartbeat,omitempty"`
	NoWait    bool          `json:"no_wait,omitempty"` // without Expires and Heartbeat
}

// ask asks for as many messages as capacity allows. While messages are still to come it
// waits until the next request is large. A message that is larger than maxBytes is asked
// for alone: the server may have taken larger messages when it was published.
func (p *puller) ask(capacity int) error {
	n := capacity - p.open
	if n <= 0 || p.open > 0 && (p.large || n < maxHeld/4) {
		return nil
	}
	limit := p.maxBytes()
	if p.large {
		n, limit, p.large = 1, 0, false
	}
	request := pullRequest{Batch: n, MaxBytes: limit, NoWait: p.noWait}
	if !p.noWait {
		request.Expires, request.Heartbeat = pullExpires, pullHeartbeat
	}
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	p.open += n
	p.waiting.Add(1)
	return p.conn.PublishRequest(p.subject, p.inbox, body)
}

// maxBytes returns how many bytes a request asks for.
func (p *puller) maxBytes() int { return max(pullBytes, int(p.conn.MaxPayload())+64<<10) }

// fromStream reports whether m is a message of the stream. All others are messages of the
// server.
func fromStream(m *natsgo.Msg) bool { return strings.HasPrefix(m.Reply, "$JS.ACK.") }

// status handles a message of the server. It returns an error unless that is a heartbeat
// or the end of a request.
func (p *puller) status(m *natsgo.Msg) error {
	status, description := m.Header.Get("Status"), m.Header.Get("Description")
	left := p.open // old servers do not report it; at worst too much is asked for
	switch status {
	case "100": // a heartbeat
		return nil
	case "404", "408":
	case "409":
		switch strings.ToLower(description) {
		case "message size exceeds maxbytes":
			// If no message came for this request, a request of this size never gets the message.
			left, err := strconv.Atoi(m.Header.Get("Nats-Pending-Bytes"))
			p.large = p.large || err != nil || left >= p.maxBytes()
		case "batch completed": // it comes behind all messages of the batch
			left = 0
		default:
			return fmt.Errorf("the consumer says %s", description)
		}
	default:
		return fmt.Errorf("the consumer says %s %s", status, description)
	}
	if n, err := strconv.Atoi(m.Header.Get("Nats-Pending-Messages")); err == nil {
		left = n
	}
	p.came(left)
	p.waiting.Store(max(p.waiting.Load()-1, 0))
	return nil
}

// came notes that n of the messages asked for came, or will not come.
func (p *puller) came(n int) {
	if p.open = max(p.open-n, 0); p.open == 0 {
		p.waiting.Store(0)
	}
}
