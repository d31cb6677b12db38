package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
)

// relayTimeout is the longest wait for an answer of the server.
const relayTimeout = 5 * time.Second

// A relay verifies requests of guests that permissions do not cover. It makes the consumers
// that guests ask for, since only the body of such a request configures the consumer:
// it may have a filter of several subjects, or push to a subject, which could be the ack
// of a message of the service. The relay forwards a request for messages only if they are
// to be sent to an inbox: a message that is sent to the commands topic keeps its old
// subject, and would be an event.
type relay struct {
	access        *Access
	guests, owner *natsgo.Conn // nil before the start
}

func (r *relay) start(s *Server, access *Access) error {
	r.access = access
	connect := func(user string) (*natsgo.Conn, error) {
		return natsgo.Connect("", natsgo.InProcessServer(s), natsgo.Name("relay"), natsgo.UserInfo(user, access.Password),
			natsgo.CustomInboxPrefix("_INBOX_relay"), natsgo.MaxReconnects(-1), natsgo.ReconnectWait(250*time.Millisecond), natsgo.IgnoreAuthErrorAbort())
	}
	var err error
	if r.owner, err = connect(Owner); err == nil {
		r.guests, err = connect(relayUser)
	}
	for _, subject := range access.relayed() {
		if err == nil {
			_, err = r.guests.Subscribe(subject, r.serve)
		}
	}
	if err == nil {
		err = r.guests.FlushTimeout(relayTimeout)
	}
	if err != nil {
		r.close()
		return fmt.Errorf("connect with the embedded server: %w", err)
	}
	return nil
}

func (r *relay) close() {
	r.guests.Close()
	r.owner.Close()
}

// serve forwards a request to the server, or refuses it.
func (r *relay) serve(m *natsgo.Msg) {
	if consumer, next := strings.CutPrefix(m.Subject, r.access.next()); next {
		if slices.ContainsFunc(inboxes, func(prefix string) bool { return strings.HasPrefix(m.Reply, prefix) }) {
			_ = r.guests.PublishMsg(&natsgo.Msg{Subject: relayedNext + consumer, Reply: m.Reply, Header: m.Header, Data: m.Data}) // the guest asks again
		}
		return
	}
	body, err := r.access.vet(m.Subject, m.Data)
	if err != nil {
		answer, _ := json.Marshal(server.ApiResponse{ // it has no field that could fail
			Type:  server.JSApiConsumerCreateResponseType,
			Error: &server.ApiError{Code: 403, Description: err.Error()},
		})
		_ = m.Respond(answer) // the guest may be gone
		return
	}
	if answer, err := r.owner.Request(m.Subject, body, relayTimeout); err == nil {
		_ = m.Respond(answer.Data)
	}
}

// idleConsumer is after which time without use a consumer of guests is deleted: a consumer that
// acks nothing keeps consumed messages in the stream. A stream keeps messages for 3 days by
// default.
const idleConsumer = 7 * 24 * time.Hour

// vet returns a request for a consumer as it may be sent, or an error if guests may not
// have that consumer.
func (a *Access) vet(subject string, body []byte) ([]byte, error) {
	var request server.CreateConsumerRequest
	if err := json.Unmarshal(body, &request); err != nil {
		return nil, errors.New("the request is not valid JSON for a consumer")
	}
	c := &request.Config
	filters := c.FilterSubjects
	if c.FilterSubject != "" {
		filters = append(slices.Clone(filters), c.FilterSubject)
	}
	names := append(strings.Split(subject, "."), c.Name, c.Durable)
	switch {
	case slices.ContainsFunc(a.Reserved, func(reserved string) bool { return slices.Contains(names, reserved) }):
		return nil, errors.New("the consumer belongs to the service")
	case len(filters) == 0, slices.ContainsFunc(filters, func(f string) bool { return !a.readable(f) }):
		return nil, fmt.Errorf("without credentials a consumer must have filter subjects within %s", strings.Join(a.read(), " or "))
	case c.DeliverSubject != "":
		return nil, errors.New("without credentials a consumer must pull: deliver_subject must be empty")
	case c.Direct, c.Sourcing:
		return nil, errors.New("without credentials a consumer can't be the source of a stream")
	}
	if durable := c.Durable != ""; durable && c.InactiveThreshold <= 0 || c.InactiveThreshold > idleConsumer {
		c.InactiveThreshold = idleConsumer
	}
	return json.Marshal(request)
}

// readable reports whether a filter matches events only, or receipts only.
func (a *Access) readable(filter string) bool {
	got := strings.Split(filter, ".")
	return !slices.Contains(got, ">") && slices.ContainsFunc(a.read(), func(subject string) bool {
		return slices.EqualFunc(got, strings.Split(subject, "."), func(g, w string) bool { return w == "*" || g == w })
	})
}
