package nats

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/connection"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/internal/retry"
)

// stopTimeout is the longest wait, when a subscription ends, for messages that the server
// is still sending.
const stopTimeout = time.Second

// consume receives messages until ctx is done, and starts over after each failure. After a
// failure the broker is not ready until the server sends something.
func (s *subscription) consume(ctx context.Context) {
	defer s.broker.failures.Set(s, nil)
	for {
		if _, err := s.broker.keeper.Await(ctx); err != nil {
			return
		}
		err := s.broker.withSession(ctx, s.consumeFrom)
		if ctx.Err() != nil {
			return
		}
		s.failed++
		err = fmt.Errorf("consume %s with consumer %s: %w", s.topic, s.durable, err)
		if !errors.Is(err, broker.ErrUnavailable) { // the keeper reports that the broker is unavailable
			s.broker.failures.Set(s, err)
		}
		wait := retry.Verify.After(s.failed)
		s.broker.log.WarnContext(ctx, "subscription failed, will retry", "error", err, "retry_in", wait)
		s.broker.keeper.Recheck()
		if !pause.For(ctx, wait) {
			return
		}
	}
}

// consumeFrom makes or finds the durable consumer, and receives its messages until ctx is
// done. It returns an error on anything unexpected, and the next call starts over.
func (s *subscription) consumeFrom(ctx context.Context, ses *session) error {
	if err := s.consumer(ctx, ses); err != nil {
		return err
	}
	in := make(chan *natsgo.Msg, 2*maxHeld) // it holds all messages that were asked for, and statuses
	inbox, err := ses.conn.ChanSubscribe(ses.conn.NewInbox(), in)
	if err != nil {
		return err
	}
	p := puller{
		conn: ses.conn, inbox: inbox.Subject,
		subject: s.broker.api("CONSUMER.MSG.NEXT." + s.broker.opt.Stream + "." + s.durable),
	}
	err = s.pull(ctx, &p, in)
	s.exhaust(&p, in)
	leave(ses.conn, inbox)
	s.empty(&p, in)
	return err
}

// leave closes an inbox when everything that the server was sending has arrived. If the
// inbox were closed on this side first, those messages would be thrown away, and be
// redelivered only after the ack wait.
//
// A client holds its lock while it writes to a server that reads nothing. So a goroutine
// makes the calls, and leave returns within the time that a stop may take.
func leave(conn *natsgo.Conn, inbox *natsgo.Subscription) {
	ending, cancel := context.WithTimeout(context.Background(), stopTimeout)
	go func() {
		defer cancel()
		// In process hardly anything is on its way. That connection is not drained, since
		// draining takes a timer that may be of another synctest bubble (nats.go v1.55.0).
		// Drain and Unsubscribe fail only if the connection is closed.
		if conn.Opts.InProcessServer == nil && inbox.Drain() == nil {
			_ = conn.FlushWithContext(ending) // if it fails, messages on the wire are redelivered
		}
		_ = inbox.Unsubscribe()
	}()
	<-ending.Done()
}

// consumer finds the durable consumer, or makes it if it is absent, unless only an
// administrator may. It refuses an existing one that is unfit, and changes nothing in it.
func (s *subscription) consumer(ctx context.Context, ses *session) error {
	b, want := s.broker, consumerConfig(s.durable, s.topic)
	info, err := b.lookUpConsumer(ctx, ses, s.durable)
	switch {
	case !errors.Is(err, jetstream.ErrConsumerNotFound):
	case b.opt.Verify:
		err = errMissing
	default:
		info, err = b.makeConsumer(ctx, ses, want)
	}
	if err != nil {
		return fmt.Errorf("consumer %s of stream %s: %w", s.durable, b.opt.Stream, err)
	}
	err = verifyConsumer(info.Config, want)
	if err == nil && !b.opt.Client { // a client may lack the permission
		_, err = b.lookUpStream(ctx, ses)
	}
	if err == nil {
		s.renew(info.Created)
	}
	return err
}

// errEdited says that the settings of the consumer were changed.
var errEdited = errors.New("the settings of the consumer were changed")

// errSilent says that the server does not send the heartbeats that it was asked for.
var errSilent = errors.New("no heartbeat of the consumer")

// pull asks for messages and receives them, until ctx is done or something
// unexpected happens.
func (s *subscription) pull(ctx context.Context, p *puller, in <-chan *natsgo.Msg) error {
	permitted, stop := s.broker.requesting(ctx, p.subject)
	defer stop()
	silence := time.NewTimer(2 * pullHeartbeat)
	defer silence.Stop()
	for {
		idle := p.open == 0
		if err := p.ask(s.capacity()); err != nil {
			return err
		}
		if idle {
			silence.Reset(2 * pullHeartbeat)
		}
		select {
		case <-permitted.Done():
			return cause(permitted, connection.ErrNotConnected)
		case <-silence.C:
			if p.open > 0 && len(in) == 0 { // while the window is full nothing is asked for, and no heartbeat comes
				return errSilent
			}
		case <-s.unfit:
			return errEdited
		case <-s.freed:
		case m := <-in:
			if err := s.read(p, m); err != nil {
				return err
			}
			silence.Reset(2 * pullHeartbeat)
		}
	}
}

// read handles one arrival at the inbox: a message, or a status of the server.
func (s *subscription) read(p *puller, m *natsgo.Msg) error {
	if s.failed > 0 {
		s.failed = 0
		s.broker.failures.Set(s, nil)
	}
	if !fromStream(m) {
		return p.status(m)
	}
	p.came(1) // it also counts messages that were asked for before a reconnect
	if d, err := s.newDelivery(m); err == nil {
		s.receive(d)
	}
	return nil
}

// exhaust receives the messages that the server is still sending, at most as many as it
// was asked for. Messages on the wire when the inbox is closed are redelivered only after
// the ack wait.
func (s *subscription) exhaust(p *puller, in <-chan *natsgo.Msg) {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	for p.open > 0 && p.conn.IsConnected() && p.conn.FlushWithContext(ctx) == nil {
		if s.empty(p, in) == 0 {
			return
		}
	}
}

// empty receives all arrivals that wait in the inbox, and returns their number.
func (s *subscription) empty(p *puller, in <-chan *natsgo.Msg) (n int) {
	for ; len(in) > 0; n++ {
		_ = s.read(p, <-in) // an error has no effect at the end, since nothing more is asked for
	}
	return n
}

const (
	pullBytes = 8 << 20 // bytes asked for at once, unless one message may be larger
	// pullExpires is how long the server keeps a request. If the process freezes, the
	// server still sends it messages for that time.
	pullExpires   = 5 * time.Second
	pullHeartbeat = 2 * time.Second // how often the server confirms that it keeps a request
)

// A puller asks a consumer for messages. The client library's own puller has two faults
// (ADR 0006). When it stops it throws away its buffered messages, which are then
// redelivered only after the ack wait. And it takes an empty message with a header
// "Status", which any producer may send, for a message of the server.
type puller struct {
	conn    *natsgo.Conn
	subject string // subject of requests
	inbox   string // subject that messages are sent to
	open    int    // messages that were asked for and did not come yet
	large   bool   // the next message is larger than maxBytes
}

// A pullRequest is a request as the server reads it, see the NATS ADR-13.
type pullRequest struct {
	Batch     int           `json:"batch"`
	MaxBytes  int           `json:"max_bytes,omitempty"` // 0: no limit
	Expires   time.Duration `json:"expires"`
	Heartbeat time.Duration `json:"idle_heartbeat"`
}

// ask asks for as many messages as capacity allows. While an earlier request is open, it
// asks for a quarter of maxHeld or more, so that a request is not made for each message.
// A message that is larger than maxBytes is asked for alone: the server may have taken
// larger messages when it was published.
func (p *puller) ask(capacity int) error {
	n := capacity - p.open
	if n <= 0 || p.open > 0 && (p.large || n < maxHeld/4) {
		return nil
	}
	limit := p.maxBytes()
	if p.large {
		n, limit, p.large = 1, 0, false
	}
	body, err := json.Marshal(pullRequest{Batch: n, MaxBytes: limit, Expires: pullExpires, Heartbeat: pullHeartbeat})
	if err != nil {
		return err
	}
	p.open += n
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
	return nil
}

// came notes that n messages of the open requests have arrived, or will not come because
// the server has ended their request.
func (p *puller) came(n int) { p.open = max(p.open-n, 0) }

const (
	// ackWait is how long the server waits for an ack, or for a notice that the message is
	// in progress, before it redelivers a message.
	ackWait       = 5 * time.Second
	minAckPending = 256 // a lower limit holds up messages behind others that wait for their retry
	minWaiting    = 16  // instances that may ask for messages at the same time

	followInterval = 2 * time.Second // between two polls of a consumer
)

// errMissing says that an object is missing that only an administrator makes.
var errMissing = errors.New("it is missing; an administrator makes it with: timer-service provision")

// consumerConfig returns the configuration of the durable consumer of a role and a topic.
func consumerConfig(durable, topic string) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:       durable,
		FilterSubject: topic,
		DeliverPolicy: jetstream.DeliverAllPolicy,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       ackWait,
		MaxDeliver:    -1, // a limit would park messages silently
		MaxAckPending: -1, // each instance bounds its messages in flight by itself
	}
}

// follow polls the consumer until ctx is done. It verifies the settings of the consumer, since
// the server does not say when they are changed. While the consumer is unfit, nothing is received. A paused consumer
// stays paused.
func (s *subscription) follow(ctx context.Context) {
	paused := false
	for pause.For(ctx, followInterval) {
		session, err := s.broker.current()
		if err != nil || !s.begun() {
			continue
		}
		info, err := s.broker.lookUpConsumer(ctx, session, s.durable)
		if err != nil {
			continue // the next poll asks again
		}
		if info.Paused {
			s.broker.failures.Set(s, fmt.Errorf("consumer %s: someone has paused it; resume it with: nats consumer resume %s %s",
				s.durable, s.broker.opt.Stream, s.durable))
		} else if paused {
			s.broker.failures.Set(s, nil)
		}
		if paused = info.Paused; verifyConsumer(info.Config, consumerConfig(s.durable, s.topic)) == nil {
			continue
		}
		select {
		case s.unfit <- struct{}{}:
		default:
		}
	}
}

// lookUpConsumer asks for a consumer. The client library refuses to return a push
// consumer.
func (b *Broker) lookUpConsumer(ctx context.Context, s *session, durable string) (*jetstream.ConsumerInfo, error) {
	var info jetstream.ConsumerInfo
	err := b.ask(ctx, s, "CONSUMER.INFO."+b.opt.Stream+"."+durable, struct{}{}, &info)
	return &info, err
}

// makeConsumer makes a consumer with one filter. A server from 2.10 returns an error if
// another consumer has its name.
func (b *Broker) makeConsumer(ctx context.Context, s *session, config jetstream.ConsumerConfig) (*jetstream.ConsumerInfo, error) {
	config.Name = cmp.Or(config.Name, config.Durable)
	var info jetstream.ConsumerInfo
	err := b.ask(ctx, s, "CONSUMER.CREATE."+b.opt.Stream+"."+config.Name+"."+config.FilterSubject, struct {
		Stream string                   `json:"stream_name"`
		Config jetstream.ConsumerConfig `json:"config"`
		Action string                   `json:"action"`
	}{b.opt.Stream, config, "create"}, &info)
	return &info, err
}

// idleConsumer is the least time without use after which a consumer may be deleted. The embedded
// server deletes that of a guest then.
const idleConsumer = 7 * 24 * time.Hour

// verifyConsumer returns an error that names the setting, and the fix, if
// messages could be lost, forgotten or held up.
func verifyConsumer(c, want jetstream.ConsumerConfig) error {
	filters := c.FilterSubjects
	if c.FilterSubject != "" || len(filters) == 0 {
		filters = append(filters, c.FilterSubject)
	}
	for _, check := range []struct {
		bad       bool
		text, fix string
	}{
		{len(filters) != 1 || filters[0] != want.FilterSubject, fmt.Sprintf("filter_subject is %q", filters), want.FilterSubject},
		{c.AckPolicy != jetstream.AckExplicitPolicy, fmt.Sprintf("ack_policy is %v, which acks messages that were not handled", c.AckPolicy), "explicit"},
		{c.MaxDeliver > 0, fmt.Sprintf("max_deliver is %d, which parks messages silently", c.MaxDeliver), "-1"},
		{len(c.BackOff) > 0, "backoff is set, which replaces ack_wait", "none"},
		{c.DeliverPolicy != jetstream.DeliverAllPolicy, fmt.Sprintf("deliver_policy is %v, which skips messages", c.DeliverPolicy), "all"},
		{c.InactiveThreshold > 0 && c.InactiveThreshold < idleConsumer, fmt.Sprintf("inactive_threshold is %v, after which the position is lost", c.InactiveThreshold), "none"},
		{c.MemoryStorage, "mem_storage is set, which loses the position", "false"},
		{c.MaxAckPending > 0 && c.MaxAckPending < minAckPending, fmt.Sprintf("max_ack_pending is %d, so messages that wait for a retry hold up others", c.MaxAckPending), fmt.Sprintf("at least %d", minAckPending)},
		{c.AckWait < ackWait, fmt.Sprintf("ack_wait is %v, so messages in flight are redelivered", c.AckWait), "at least " + ackWait.String()},
		{c.HeadersOnly, "headers_only is set, so messages come without their bodies", "false"},
		{c.DeliverSubject != "", "deliver_subject is set, so messages are pushed to it", "none"},
		{c.ReplayPolicy != jetstream.ReplayInstantPolicy, fmt.Sprintf("replay_policy is %v, which delays messages", c.ReplayPolicy), "instant"},
		{c.PriorityPolicy != jetstream.PriorityPolicyNone, "priority_policy is set", "none"},
		{c.MaxRequestBatch > 0 && c.MaxRequestBatch < maxHeld, fmt.Sprintf("max_batch is %d", c.MaxRequestBatch), fmt.Sprintf("at least %d", maxHeld)},
		{c.MaxRequestExpires > 0 && c.MaxRequestExpires < pullExpires, fmt.Sprintf("max_expires is %v", c.MaxRequestExpires), "at least " + pullExpires.String()},
		{c.MaxRequestMaxBytes > 0, fmt.Sprintf("max_bytes is %d, so a large message stops all others", c.MaxRequestMaxBytes), "none"},
		{c.MaxWaiting > 0 && c.MaxWaiting < minWaiting, fmt.Sprintf("max_waiting is %d", c.MaxWaiting), fmt.Sprintf("at least %d", minWaiting)},
	} {
		if check.bad {
			return fmt.Errorf("consumer %s: %s; set it to: %s", want.Durable, check.text, check.fix)
		}
	}
	return nil
}
