package nats

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"
)

const (
	pullMessages  = 4096             // messages asked for at once: as many come in a round trip, however long that is
	pullBytes     = 8 << 20          // bytes asked for at once, unless one message may be larger
	pullExpires   = 30 * time.Second // how long the server keeps a request
	pullHeartbeat = 5 * time.Second  // how often it tells that it does
)

// A puller asks a consumer for messages. The client library has one too, which
// throws away what it has buffered when it stops, so that it comes again after
// the ack wait only, and takes an empty message with a header "Status" for one
// of the server (nats.go v1.55.0).
type puller struct {
	conn    *natsgo.Conn
	subject string // where to ask
	inbox   string // where messages go
	open    int    // messages asked for that did not come yet
}

// A pullRequest is one as the server reads it, see the NATS ADR-13.
type pullRequest struct {
	Batch     int           `json:"batch"`
	MaxBytes  int           `json:"max_bytes"`
	Expires   time.Duration `json:"expires"`
	Heartbeat time.Duration `json:"idle_heartbeat"`
}

// ask asks for more messages when half of those asked for have come.
func (p *puller) ask() error {
	if p.open > pullMessages/2 {
		return nil
	}
	body, err := json.Marshal(pullRequest{
		Batch: pullMessages - p.open,
		// A message larger than the limit would stall the consumer for good.
		MaxBytes: max(pullBytes, int(p.conn.MaxPayload())+64<<10),
		Expires:  pullExpires, Heartbeat: pullHeartbeat,
	})
	if err != nil {
		return err
	}
	p.open = pullMessages
	return p.conn.PublishRequest(p.subject, p.inbox, body)
}

// fromStream reports whether m is a message of the stream. Others are what the
// server has to say.
func fromStream(m *natsgo.Msg) bool { return strings.HasPrefix(m.Reply, "$JS.ACK.") }

// told notes what the server has to say. It returns an error if there is more
// to it than the end of a request.
func (p *puller) told(m *natsgo.Msg) error {
	status, description := m.Header.Get("Status"), m.Header.Get("Description")
	switch status {
	case "100": // a heartbeat
		return nil
	case "404", "408":
	case "409":
		if d := strings.ToLower(description); d != "message size exceeds maxbytes" && d != "batch completed" {
			return fmt.Errorf("the consumer says %s", description)
		}
	default:
		return fmt.Errorf("the consumer says %s %s", status, description)
	}
	left, err := strconv.Atoi(m.Header.Get("Nats-Pending-Messages"))
	if err != nil {
		left = p.open // old servers do not tell; at worst too much is asked for
	}
	p.open = max(p.open-left, 0)
	return nil
}
