package main

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"maps"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// Limits of one call of the publisher, and of the errors that are printed.
const (
	maxBatch      = 256
	maxBatchBytes = 1 << 20
	maxErrors     = 20
)

var errInterrupted = errors.New("interrupted")

type publishCmd struct {
	File string    `arg:"" help:"File with one envelope a line, or one envelope; - is stdin."`
	Raw  bool      `help:"Publish also what is not a valid command, as it is."`
	Rate perSecond `placeholder:"N" help:"At most so many messages a second; 0 is no limit."`
}

// Help is printed below the summary.
func (publishCmd) Help() string {
	return `Publishes each line as a message, to the commands of the tenant that the line
names. The id of the message is that of the command; if two different lines have
the same id, the second one gets a new id. A line that is not a valid
ScheduleTimer, ScheduleTimers or CancelTimer is reported by its number, the others
are published, and the exit code is 1.

After an interrupt or a crash, publish the file again: the broker drops ids that
it received recently, and the service ignores versions that it has. Lines that
only --raw publishes are published twice then.

Examples:

    timer-service publish commands.jsonl
    timer-service publish --rate 500 - < commands.jsonl
    echo '{"type":"ScheduleTimer"}' | timer-service publish --raw -`
}

// Run publishes the messages.
func (p *publishCmd) Run(ctx context.Context, e *env) error {
	return sendFile(ctx, e, "publish", p.File, "messages", "publish it", func(s *sender, in io.Reader) error {
		s.raw, s.ids = p.Raw, newIDs(maxIDs)
		if p.Rate > 0 {
			s.batch = min(max(int(p.Rate/10), 1), maxBatch)
			s.limiter = rate.NewLimiter(rate.Limit(p.Rate), s.batch)
		}
		return s.sendAll(ctx, in)
	})
}

// A sender publishes lines.
type sender struct {
	client   *connection
	stderr   io.Writer
	progress *progress
	raw      bool
	fresh    bool          // messages have new ids, since the broker may have had those of the commands
	batch    int           // most messages in one call of the publisher
	limiter  *rate.Limiter // nil if there is no limit
	ids      *ids

	pending []broker.Message // that are not published yet
	numbers []int            // of their lines
	bytes   int              // of their bodies

	sent, refused int
}

// sendFile opens a file, connects, lets send publish the lines, and prints how
// many were published. What names that which is published, and do what the user
// does to it again.
func sendFile(ctx context.Context, e *env, verb, file, what, do string, send func(*sender, io.Reader) error) error {
	in, err := e.input(verb, file)
	if err != nil {
		return err
	}
	defer in.Close()
	return sendFrom(ctx, e, verb, what, do, func(s *sender) error { return send(s, in) })
}

// sendFrom is sendFile for what is open already.
func sendFrom(ctx context.Context, e *env, verb, what, do string, send func(*sender) error) error {
	c, err := connect(ctx, e, verb)
	if err != nil {
		return err
	}
	defer c.close()
	s := &sender{client: c, stderr: e.stderr, progress: newProgress(e, what), batch: maxBatch}
	err = send(s)
	s.progress.clear()
	e.out.print(&sentCount{Result: resultPublished, Messages: s.sent, Refused: s.refused})
	switch {
	case err != nil:
		return fmt.Errorf("%w; %s again from the start: lines that were published already change nothing", err, do)
	case s.refused > 0:
		return fmt.Errorf("%s refused: %d", what, s.refused)
	}
	return nil
}

// A sentCount is how many messages or timers of a file were published.
type sentCount struct {
	Result   string `json:"result"`
	Messages int    `json:"messages"`
	Refused  int    `json:"refused"`
}

func (s *sentCount) text() string {
	return fmt.Sprintf("%d published, %d refused", s.Messages, s.Refused)
}

// sendAll publishes the lines of a reader, until its end or that of ctx.
func (s *sender) sendAll(ctx context.Context, in io.Reader) error {
	lines, failed := readLines(ctx, in)
	for {
		select {
		case line, more := <-lines:
			if !more {
				return errors.Join(s.flush(ctx), <-failed)
			}
			if err := s.add(ctx, line); err != nil {
				return err
			}
		case <-ctx.Done():
			return errInterrupted
		}
		if len(lines) == 0 { // the next one may take long
			if err := s.flush(ctx); err != nil {
				return err
			}
		}
	}
}

// add publishes a line, with those after it once the batch is full.
func (s *sender) add(ctx context.Context, l line) error {
	if ctx.Err() != nil {
		return errInterrupted
	}
	m, err := s.message(l)
	if err != nil {
		s.refuse(l.number, err)
		return nil
	}
	s.pending, s.numbers = append(s.pending, m), append(s.numbers, l.number)
	if s.bytes += len(l.body); len(s.pending) < s.batch && s.bytes < maxBatchBytes {
		return nil
	}
	return s.flush(ctx)
}

// message returns the message of a line, or why there is none.
func (s *sender) message(l line) (broker.Message, error) {
	if l.err != nil {
		return broker.Message{}, l.err
	}
	decoded, err := envelope.Decode(l.body)
	var headers map[string]string
	switch m := decoded.Payload.(type) {
	case timer.ScheduleTimer:
		headers = envelope.ScheduleHeaders(m)
	case timer.ScheduleTimers:
		headers = envelope.ScheduleManyHeaders(m)
	case timer.CancelTimer:
		headers = envelope.CancelHeaders(m)
	default:
		if !s.raw {
			if err == nil {
				err = fmt.Errorf("%s is not a command; --raw publishes it anyway", timer.Quote(decoded.Type))
			}
			return broker.Message{}, err
		}
	}
	var id string
	tenant := decoded.TenantID
	switch {
	case headers == nil: // each copy of it must arrive
		id, tenant = uuid.NewString(), envelope.TenantOf(l.body)
	case s.fresh:
		id = uuid.NewString()
	default:
		id = s.ids.of(decoded.ID, l.body)
	}
	routing := s.client.Routing()
	topic := routing.CommandsOf(tenant)
	if tenant == timer.NoTenant && topic != routing.Commands {
		return broker.Message{}, errors.New("names no tenant, and each tenant has a topic of its own")
	}
	m := message.NewMessage(id, l.body)
	maps.Copy(m.Metadata, headers)
	return broker.Message{Topic: topic, Message: m}, nil
}

// refuse counts a line that is not published, and prints why.
func (s *sender) refuse(number int, err error) {
	s.refused++
	if s.refused > maxErrors {
		return
	}
	s.progress.clear()
	fmt.Fprintf(s.stderr, "line %d: %s\n", number, printable(redact(detail(err))))
	if s.refused == maxErrors {
		fmt.Fprintln(s.stderr, "further refused lines are only counted")
	}
}

// flush publishes what is pending.
func (s *sender) flush(ctx context.Context) error {
	batch, numbers := s.pending, s.numbers
	if s.pending, s.numbers, s.bytes = nil, nil, 0; len(batch) == 0 {
		return nil
	}
	if s.limiter != nil && s.limiter.WaitN(ctx, len(batch)) != nil {
		return errInterrupted
	}
	var failed error
	for i, err := range s.client.Publisher().Publish(ctx, batch...) {
		switch {
		case err == nil:
			s.sent++
		case errors.Is(err, broker.ErrRefused):
			s.refuse(numbers[i], err)
		case failed == nil:
			failed = fmt.Errorf("lines %d to %d: line %d: %w", numbers[0], numbers[len(numbers)-1], numbers[i], err)
		}
	}
	s.progress.add(len(batch))
	return failed
}

// maxIDs is how many ids publish keeps at least: those of two minutes, the
// deduplication window of a NATS stream, at 8,000 a second.
const maxIDs = 1 << 20

// The ids are the latest ids of commands, each with the body that it was used
// for. A broker drops a message whose id it knows, whatever the body is, and a
// CloudEvent id is unique for its source only.
type ids struct {
	most        int               // ids in each of the maps
	seed        maphash.Seed      // of the hashes
	now, before map[uint64]uint64 // hash of the body, by that of the id
}

func newIDs(most int) *ids {
	return &ids{most: most, seed: maphash.MakeSeed(), now: make(map[uint64]uint64)}
}

// of returns the id to publish a body with: its own, or, if that was used for
// another body, one that is derived from the body.
func (s *ids) of(id string, body []byte) string {
	key, value := maphash.String(s.seed, id), maphash.Bytes(s.seed, body)
	first, known := s.now[key]
	if !known {
		first, known = s.before[key]
	}
	if known && first != value {
		return uuid.NewSHA1(uuid.NameSpaceOID, body).String()
	}
	if len(s.now) >= s.most {
		s.now, s.before = make(map[uint64]uint64), s.now
	}
	s.now[key] = value
	return id
}
