package crash

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/internal/freeport"
	"github.com/event-service-agent/timer-service/verify/crash/history"
	"github.com/event-service-agent/timer-service/verify/internal/kafkanode"
)

// A wire is how the test itself talks with the broker: with the client of
// a library that the service does not use where possible, so that errors of its
// own driver do not hide themselves.
//
// Messages are recorded as NATS has them, whatever the broker: see
// [history.EventsTopic] and [history.DeadLettersTopic] for the topics, and
// [history.DedupeHeader] for the id by which a broker knows a message.
type wire interface {
	// publish returns when the broker has the command for good, and where it is.
	publish(ctx context.Context, c history.Command) (seq uint64, err error)

	// observe records the messages of the service to the broker, until stop is called. It
	// must begin before the first command is sent.
	observe(ctx context.Context, recorder *history.Recorder) (stop func(), err error)

	// pending returns how many commands the service has not acked, as far as the
	// broker says, and how many messages of the service were not recorded yet.
	pending(ctx context.Context, recorder *history.Recorder) (open, unseen int, err error)

	close()
}

// A Kind says which broker is used.
type Kind string

// Kinds of brokers.
const (
	NATS     Kind = "nats"     // nats-server, of the module that the service embeds
	Kafka    Kind = "kafka"    // Apache Kafka, for which Java and Maven must be installed
	KFake    Kind = "kfake"    // kfake of franz-go, which speaks the protocol of Kafka
	RabbitMQ Kind = "rabbitmq" // RabbitMQ, which must be installed
)

// Kinds are all kinds.
var Kinds = []Kind{NATS, Kafka, KFake, RabbitMQ}

// kindOf is all that depends on which broker is used.
type kindOf struct {
	scheme  string // of the URL that the service is given
	dial    func(ctx context.Context, r *run) (wire, error)
	timeout time.Duration // for an answer, where it does not die; 0 for a short one
}

var kinds = map[Kind]kindOf{
	NATS: {"nats://", func(ctx context.Context, r *run) (wire, error) {
		return dialNATS(ctx, r)
	}, 0},
	Kafka: {"kafka://", openKafka, 10 * time.Second},
	KFake: {"kafka://", openKafka, 10 * time.Second},
	RabbitMQ: {"amqp://guest:guest@", func(_ context.Context, r *run) (wire, error) {
		return dialRabbitMQ("amqp://guest:guest@" + freeport.Address(r.port) + "/")
	}, 10 * time.Second},
}

func openKafka(_ context.Context, r *run) (wire, error) {
	return dialKafka(cmp.Or(r.opt.URL, freeport.Address(r.port)))
}

// KafkaHere is Apache Kafka where Java and Maven are, and the fake elsewhere.
func KafkaHere() Kind {
	if kafkanode.Installed() {
		return Kafka
	}
	return KFake
}

// Setting is the value of TIMER_BROKER for a kind.
func (k Kind) Setting() string {
	if k == KFake {
		return string(Kafka)
	}
	return string(k)
}

// Name names a broker for people who read figures, with the version where this module
// chooses it.
func (k Kind) Name() string {
	switch k {
	case Kafka:
		version, _ := kafkanode.Fetch() // without it nothing was measured
		return "Apache Kafka " + version
	case KFake:
		return "kfake"
	case RabbitMQ:
		return "RabbitMQ"
	}
	return "nats-server"
}

// check returns an error if a mode makes no sense with a kind of broker.
func (k Kind) check(m Mode) error {
	if _, ok := kinds[k]; !ok {
		return fmt.Errorf("broker %q is none of %q", k, Kinds)
	}
	if k != NATS && (m.embeds() || m.cutsPower()) {
		return fmt.Errorf("mode %s needs the broker %s", m, NATS)
	}
	if k != NATS && k != Kafka && (m == Broker || m == Both) {
		return fmt.Errorf("mode %s needs the broker %s or %s", m, NATS, Kafka)
	}
	if k == RabbitMQ && m.loses() {
		return fmt.Errorf("mode %s needs the broker %s or %s, which keep messages after their ack", m, NATS, Kafka)
	}
	return nil
}

// A line leads to the wire of a run, which is cut while the broker is away for longer.
type line struct {
	mu   sync.RWMutex
	to   commandPublisher // nil while it is cut
	base uint64           // see [history.Recorder.Empty]
}

var errCut = errors.New("there is no connection with the broker")

// publish returns a place that counts on when the broker was emptied.
func (l *line) publish(ctx context.Context, c history.Command) (uint64, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.to == nil {
		return 0, errCut
	}
	seq, err := l.to.publish(ctx, c)
	return l.base + seq, err
}

// lead connects the line, or cuts it if there is no publisher. It waits for the commands
// that are being published.
func (l *line) lead(to commandPublisher, base uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.to, l.base = to, base
}

// A tally numbers the messages of a broker that does not number them itself.
type tally struct {
	recorder *history.Recorder
	seq      uint64
}

// unnumbered is above the place of every command, see [history.Sent]: messages
// that the service sends are later than ones that it received, as far as such a broker knows.
const unnumbered = 1 << 62

// note records a message of the service, and that it was published, at a time: a
// broker that drops no duplicates keeps each attempt.
func (t *tally) note(topic, dedupeID string, published time.Time, header map[string]string, body []byte) {
	t.seq++
	header[history.DedupeHeader] = dedupeID
	m := history.Message{Topic: topic, Seq: unnumbered + t.seq, At: time.Now(), Header: header, Body: body}
	t.recorder.Message(m)
	m.At = published
	t.recorder.Attempt(m)
}
