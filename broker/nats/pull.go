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
	pullBytes     = 8 << 20         // bytes asked for at once, unless one message may be larger
	pullExpires   = 5 * time.Second // how long the server keeps a request: so long a process that is frozen is sent messages
	pullHeartbeat = 2 * time.Second // how often the server says that it keeps a request
)

// A puller asks a consumer for messages. The client library's own throws away what
// it has buffered when it stops, so that it comes again after the ack wait only,
// and takes an empty message with a header "Status", which any producer may send,
// for one of the server: ADR 0006.
type puller struct {
	conn    *natsgo.Conn
	subject string        // where to ask
	inbox   string        // where messages go
	open    int           // messages asked for that did not come yet
	large   bool          // the next message is larger than a request may be
	noWait  bool          // what there is now is asked for, and the server keeps no request
	waiting *atomic.Int64 // requests that the server may keep, at most
}

// A pullRequest is one as the server reads it, see the NATS ADR-13.
type pullRequest struct {
	Batch     int           `json:"batch"`
	MaxBytes  int           `json:"max_bytes,omitempty"` // 0: no limit
	Expires   time.Duration `json:"expires,omitempty"`
	Heartbeat time.Duration `json:"idle_heartbeat,omitempty"`
	NoWait    bool          `json:"no_wait,omitempty"` // for what there is now; without the two above
}

// ask asks for as many messages as there is capacity for. It does so in large
// requests, unless nothing is asked for. A message that is larger than a request may
// be is asked for alone: the server may have taken larger ones when it was published.
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

// maxBytes returns how many bytes are asked for at once.
func (p *puller) maxBytes() int { return max(pullBytes, int(p.conn.MaxPayload())+64<<10) }

// fromStream reports whether m is a message of the stream. Others are the
// server's own.
func fromStream(m *natsgo.Msg) bool { return strings.HasPrefix(m.Reply, "$JS.ACK.") }

// status reads a message of the server. It returns an error if it is more than
// the end of a request.
func (p *puller) status(m *natsgo.Msg) error {
	status, description := m.Header.Get("Status"), m.Header.Get("Description")
	left := p.open // old servers do not count; at worst too much is asked for
	switch status {
	case "100": // a heartbeat
		return nil
	case "404", "408":
	case "409":
		switch strings.ToLower(description) {
		case "message size exceeds maxbytes":
			// If nothing of the request came, no request like it ever gets the message.
			left, err := strconv.Atoi(m.Header.Get("Nats-Pending-Bytes"))
			p.large = p.large || err != nil || left >= p.maxBytes()
		case "batch completed": // which comes behind all of its messages
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

// came notes that some of the messages asked for came, or will not come.
func (p *puller) came(n int) {
	if p.open = max(p.open-n, 0); p.open == 0 {
		p.waiting.Store(0)
	}
}
