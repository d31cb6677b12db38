package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/connection"
	"github.com/event-service-agent/timer-service/broker/inflight"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/internal/retry"
)

const (
	replayBatch    = 2000                   // messages in a batch
	replayInactive = 5 * time.Second        // the server deletes an idle consumer after that
	replayTries    = 10                     // attempts in a row that read nothing, while connected
	replayTurn     = 250 * time.Millisecond // how often to poll for the end of another replay
)

var (
	// errReplay says that the consumer of a replay is gone, or that messages were lost on
	// the way. The next attempt goes on behind the last message that was visited.
	errReplay = errors.New("the replay was interrupted")
	// errRemade says that the stream was made again, so that the sequences of before are
	// invalid.
	errRemade = errors.New("it was deleted and made again")
)

// A replay reads messages of the stream with a temporary consumer. The consumer has a
// fixed name, so that a user can be permitted to make it. While one batch is visited the
// next is on its way. The server keeps no position of the replay: after an interruption
// the replay looks for the next message, and makes a consumer that begins there.
type replay struct {
	*Broker
	consumer string // name of the consumer
	id       string // distinguishes its consumer from that of another replay
	filter   string // subject
	log      string // name of the log
	next     uint64 // first sequence that was not visited
	end      uint64 // last sequence to visit
	replicas int    // replicas of the stream and of the consumer
	order    uint64 // number of the last delivery of the consumer
	passed   bool   // the end was reached
	visit    func([]broker.Stored) error
	failed   error // error of visit
}

// Read reads the messages of a kind that the stream holds, see [broker.History]. It goes
// on after the connection was lost. Several calls that read the same kind, in any
// process, run one after the other.
func (b *Broker) Read(ctx context.Context, kind broker.Kind, after, upTo map[string]int64, visit func([]broker.Stored) error) error {
	r := replay{
		Broker: b, consumer: b.commandsOf(b.opt.Role) + replayNames[kind], id: nuid.Next(),
		filter: b.opt.Routing.TopicOf(kind, "*"), visit: visit,
	}
	err := b.withSession(ctx, func(ctx context.Context, s *session) error {
		info, err := b.lookUpStream(ctx, s)
		if err != nil {
			return err
		}
		r.log, r.end = logOf(info), info.State.LastSeq
		r.next = uint64(after[r.log]) + 1
		if upTo != nil {
			r.end = min(r.end, uint64(upTo[r.log]))
		}
		return nil
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err == nil {
		err = r.run(ctx)
	}
	switch {
	case r.failed != nil:
		return r.failed
	case err != nil:
		return fmt.Errorf("read stream %s: %w", b.opt.Stream, err)
	}
	return nil
}

// replayNames are the suffixes of the consumers' names.
var replayNames = map[broker.Kind]string{
	broker.Commands: "_replay-commands", broker.Events: "_replay-events", broker.DeadLetter: "_replay-dead-letters",
}

// run reads until the end, and goes on after interruptions.
func (r *replay) run(ctx context.Context) error {
	for tries := 1; ; tries++ {
		before := r.next
		_, err := r.keeper.Await(ctx)
		if err == nil {
			err = r.withSession(ctx, r.readAll)
		}
		if err == nil || r.failed != nil {
			return err
		}
		if r.next > before {
			tries = 1
		}
		if ctx.Err() != nil || tries == replayTries || final(err) || !pause.For(ctx, retry.Verify.After(tries)) {
			return errors.Join(ctx.Err(), err)
		}
		r.Broker.log.WarnContext(ctx, "replay interrupted, will go on", "consumer", r.consumer, "sequence", r.next, "error", err)
	}
}

// final reports whether no retry can help after an error, since the server, or Run, has
// said so. All other errors may come from a connection that was lost a moment ago.
func final(err error) bool {
	api, refused := errors.AsType[*jetstream.APIError](err)
	return refused && api.Code != http.StatusServiceUnavailable || errors.Is(err, natsgo.ErrPermissionViolation) || errors.Is(err, errRemade) || errors.Is(err, connection.ErrClosed)
}

// readAll reads until the end on one connection. It asks the stream whether there is
// more, since the consumer may read from a replica that is behind.
func (r *replay) readAll(ctx context.Context, s *session) error {
	info, err := r.lookUpStream(ctx, s)
	switch {
	case err != nil:
		return err
	case logOf(info) != r.log:
		return fmt.Errorf("%w: it is %s, and was %s", errRemade, logOf(info), r.log)
	case info.State.LastSeq < r.end:
		return fmt.Errorf("%w: the stream ends at %d, and ended at %d", errReplay, info.State.LastSeq, r.end)
	}
	r.replicas = info.Config.Replicas
	for r.next <= r.end {
		first, found, err := r.get(ctx, s, r.opt.Stream, getRequest{Sequence: r.next, Filter: r.filter})
		if err != nil {
			return err
		}
		if !found || first.Sequence > r.end {
			return nil
		}
		before := r.next
		if err := r.read(ctx, s, first.Sequence); err != nil {
			return err
		}
		if r.next == before {
			return fmt.Errorf("%w: message %d does not come", errReplay, first.Sequence)
		}
	}
	return nil
}

// read makes a consumer that begins with the message first, and reads what the server
// sends.
func (r *replay) read(ctx context.Context, s *session, first uint64) error {
	if err := r.awaitConsumer(ctx, s, first); err != nil {
		return err
	}
	defer r.deleteConsumer(context.WithoutCancel(ctx), s)
	in := make(chan *natsgo.Msg, 2*replayBatch+64) // it holds two batches, and statuses
	sub, err := s.conn.ChanSubscribe(s.conn.NewInbox(), in)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }() // it fails only if the connection is closed
	p := puller{
		conn: s.conn, inbox: sub.Subject, noWait: true, waiting: new(atomic.Int64),
		subject: r.api("CONSUMER.MSG.NEXT." + r.opt.Stream + "." + r.consumer),
	}
	r.order, r.passed = 0, false
	if err := p.ask(replayBatch); err != nil {
		return err
	}
	for p.open > 0 {
		batch, err := r.receive(ctx, &p, in)
		if err == nil && !r.passed && (len(batch) > 0 || p.large) {
			err = p.ask(replayBatch)
		}
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
		if len(batch) > 0 {
			if r.failed = r.visit(batch); r.failed != nil {
				return r.failed
			}
			r.next = uint64(batch[len(batch)-1].Number) + 1
		}
		if r.passed {
			r.next = max(r.next, r.end+1)
		}
	}
	return nil
}

// receive receives the messages that were asked for, or those of them that exist.
func (r *replay) receive(ctx context.Context, p *puller, in <-chan *natsgo.Msg) (batch []broker.Stored, err error) {
	silence := time.NewTimer(apiTimeout)
	defer silence.Stop()
	for p.open > 0 {
		var m *natsgo.Msg
		select {
		case m = <-in:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-silence.C:
			return nil, fmt.Errorf("%w: the consumer is silent", errReplay)
		}
		if !fromStream(m) {
			if err := p.status(m); err != nil {
				return nil, fmt.Errorf("%w: %w", errReplay, err)
			}
			continue
		}
		meta, err := m.Metadata()
		if err != nil || meta.Sequence.Consumer != r.order+1 {
			return nil, fmt.Errorf("%w: a message is missing", errReplay)
		}
		r.order++
		p.came(1)
		silence.Reset(apiTimeout)
		if meta.Sequence.Stream <= r.end {
			msg := unmarshal(m.Subject, m.Header, m.Data)
			msg.Metadata[broker.MetaPosition] = strconv.FormatUint(meta.Sequence.Stream, 10)
			batch = append(batch, broker.Stored{Message: msg, Log: r.log, Number: number(meta.Sequence.Stream), At: meta.Timestamp.UTC()})
		}
		if r.passed = meta.Sequence.Stream >= r.end; r.passed {
			p.open = 0
		}
	}
	return batch, nil
}

// awaitConsumer makes the consumer. If a consumer of that name exists, awaitConsumer waits
// until it is gone. That is a moment after the process that made it has ended.
func (r *replay) awaitConsumer(ctx context.Context, s *session, first uint64) error {
	config := jetstream.ConsumerConfig{
		Name:              r.consumer,
		Description:       r.id,
		FilterSubject:     r.filter,
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       first,
		AckPolicy:         jetstream.AckNonePolicy,
		InactiveThreshold: replayInactive,
		MemoryStorage:     true,
		Replicas:          r.replicas,
	}
	for {
		info, err := r.lookUpConsumer(ctx, s, r.consumer)
		switch {
		case errors.Is(err, jetstream.ErrConsumerNotFound):
			if _, err := r.makeConsumer(ctx, s, config); !taken(err) {
				return err
			} // another replay was faster
		case err != nil:
			return fmt.Errorf("consumer %s: %w", r.consumer, err)
		case info.Config.Description == r.id: // it was made before the connection was lost
			r.deleteConsumer(ctx, s)
		case !pause.For(ctx, replayTurn):
			return ctx.Err()
		}
	}
}

// codeCannotUpdate is the error of a server before 2.10 if the consumer exists.
const codeCannotUpdate = 10012

// taken reports whether another consumer has the name.
func taken(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && (api.ErrorCode == jetstream.JSErrCodeConsumerAlreadyExists || api.ErrorCode == jetstream.JSErrCodeConsumerExists ||
		api.ErrorCode == codeCannotUpdate && strings.HasSuffix(api.Description, "can not be updated"))
}

// deleteConsumer deletes the consumer. If that fails the server deletes it a moment
// later.
func (r *replay) deleteConsumer(ctx context.Context, s *session) {
	if !s.lost() {
		_ = r.ask(ctx, s, "CONSUMER.DELETE."+r.opt.Stream+"."+r.consumer, struct{}{}, new(struct{}))
	}
}

// tailBuffer is how many messages a reader of a tail may be behind. Further messages are
// dropped, and that is logged.
const tailBuffer = 8192

// A listener is a subscription on one connection.
type listener struct {
	sub       *natsgo.Subscription
	in        chan *natsgo.Msg
	permitted context.Context // ends when the subscription is denied, or the connection lost
	stop      func()          // ends permitted, too
}

// tail subscribes, and waits until the server has the subscription. It needs only the
// permission to subscribe, since people and tenants have no other.
func (b *Broker) tail(ctx context.Context, topic string) (inflight.Listener, error) {
	if err := checkFilter(topic); err != nil {
		return nil, err
	}
	s, err := b.current()
	if err != nil {
		return nil, err
	}
	before := lastError(s.conn)
	in := make(chan *natsgo.Msg, tailBuffer)
	sub, err := s.conn.ChanSubscribe(topic, in)
	if err != nil {
		return nil, err
	}
	l := &listener{sub: sub, in: in}
	l.permitted, l.stop = b.requesting(s, toSubscribe(topic))
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	err = s.conn.FlushWithContext(ctx)
	// The library reports a denial later than it has read the answer to the flush.
	if last := lastError(s.conn); err == nil && last != before && last != nil && strings.Contains(last.Error(), toSubscribe(topic)) { //nolint:errorlint // each denial is an error of its own
		err = denied(last)
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// Receive sends messages until ctx is done, the subscription is denied, or the connection
// is lost.
func (l *listener) Receive(ctx context.Context, send func(*message.Message) bool) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.permitted.Done():
			return
		case m := <-l.in:
			if !send(unmarshal(m.Subject, m.Header, m.Data)) {
				return
			}
		}
	}
}

// Close ends the subscription.
func (l *listener) Close() {
	l.stop()
	_ = l.sub.Unsubscribe() // it fails only if the connection is closed
}
