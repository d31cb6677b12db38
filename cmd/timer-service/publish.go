package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/timer"
)

// Limits of what is published together, and of what is said about what is not.
const (
	maxBatch      = 256
	maxBatchBytes = 1 << 20
	maxComplaints = 20
)

type publishCmd struct {
	File string  `arg:"" help:"File with one envelope a line, or one envelope; - is stdin."`
	Raw  bool    `help:"Publish what is no valid command, too, as it is."`
	Rate float64 `placeholder:"N" help:"Most messages a second; 0 is no limit."`
}

// Help is printed below the summary.
func (publishCmd) Help() string {
	return `Publishes each line as a message, to the commands of the tenant that it names,
under its own id, unless another line has that already. What is no valid
ScheduleTimer or CancelTimer is refused, with its line, and the others are
published: exit code 1. Interrupted or killed, it can be run again: the broker
drops an id that it knows, and the service the version of a timer that it has.
With --raw that is so for valid commands only.

Examples:

    timer-service publish commands.jsonl
    timer-service publish --rate 500 - < commands.jsonl
    echo '{"type":"ScheduleTimer"}' | timer-service publish --raw -`
}

// Run publishes the messages.
func (p *publishCmd) Run(ctx context.Context, e *env) error {
	if p.Rate < 0 {
		return wrong("publish", "--rate must not be negative; 0 is no limit")
	}
	in := e.stdin
	if p.File != "-" {
		file, err := os.Open(p.File)
		if err != nil {
			return wrong("publish", "%w", err)
		}
		defer file.Close()
		in = file
	}
	c, err := connect(ctx, e, "publish")
	if err != nil {
		return err
	}
	defer c.close()
	s := &sender{client: c, stderr: e.stderr, progress: newProgress(e, "messages"), raw: p.Raw, batch: maxBatch, ids: newIDs(maxIDs)}
	if p.Rate > 0 {
		s.batch = min(max(int(p.Rate/10), 1), maxBatch)
		s.limiter = rate.NewLimiter(rate.Limit(p.Rate), s.batch)
	}
	err = s.sendAll(ctx, in)
	s.progress.clear()
	e.out.print(&sentCount{Result: resultPublished, Messages: s.sent, Refused: s.refused})
	switch {
	case err != nil:
		return fmt.Errorf("%w; publish it again from the start: what the broker has already changes nothing", err)
	case s.refused > 0:
		return fmt.Errorf("messages refused: %d", s.refused)
	}
	return nil
}

// A sentCount is what publish prints.
type sentCount struct {
	Result   string `json:"result"`
	Messages int    `json:"messages"`
	Refused  int    `json:"refused"`
}

func (s *sentCount) text() string {
	return fmt.Sprintf("%d published, %d refused", s.Messages, s.Refused)
}

// A sender publishes lines.
type sender struct {
	client   *client
	stderr   io.Writer
	progress *progress
	raw      bool
	batch    int           // messages that are published together, at most
	limiter  *rate.Limiter // nil if there is no limit
	ids      *ids

	sent, refused int
}

// A posted line is on its way.
type posted struct {
	number int
	topic  string
	msg    *message.Message
}

// sendAll publishes what can be read, until its end or that of ctx.
func (s *sender) sendAll(ctx context.Context, in io.Reader) error {
	lines, failed := readLines(ctx, in)
	var batch []posted
	bytes := 0
	for {
		var line line
		more := false
		select {
		case line, more = <-lines:
		case <-ctx.Done():
			return errors.New("interrupted")
		}
		if more {
			if one, err := s.post(line); err != nil {
				s.refuse(line.number, err)
			} else {
				batch = append(batch, one)
				bytes += len(line.body)
			}
		}
		// What is there is published when it is enough, or no more is there yet.
		if len(batch) > 0 && (!more || len(batch) == s.batch || bytes >= maxBatchBytes || len(lines) == 0) {
			if err := s.send(ctx, batch); err != nil {
				return err
			}
			batch, bytes = nil, 0
		}
		if !more {
			return <-failed
		}
	}
}

// post returns the message that a line is, or why there is none.
func (s *sender) post(l line) (posted, error) {
	if l.err != nil {
		return posted{}, l.err
	}
	decoded, err := envelope.Decode(l.body)
	var headers map[string]string
	switch m := decoded.Payload.(type) {
	case timer.ScheduleTimer:
		headers = envelope.ScheduleHeaders(m)
	case timer.CancelTimer:
		headers = envelope.CancelHeaders(m)
	default:
		if !s.raw {
			if err == nil {
				err = fmt.Errorf("%s is no command; --raw publishes it all the same", timer.Quote(decoded.Type))
			}
			return posted{}, err
		}
	}
	var id string
	tenant := decoded.TenantID
	if headers == nil { // it is to arrive as often as it is published
		id, tenant = uuid.NewString(), envelope.TenantOf(l.body)
	} else {
		id = s.ids.of(decoded.ID, l.body)
	}
	routing := s.client.Routing()
	topic := routing.CommandsOf(tenant)
	if tenant == timer.NoTenant && topic != routing.Commands {
		return posted{}, errors.New("names no tenant, and there is a topic for each")
	}
	msg := message.NewMessage(id, l.body)
	for name, value := range headers {
		msg.Metadata.Set(name, value)
	}
	return posted{l.number, topic, msg}, nil
}

// refuse tells of a line that is not published.
func (s *sender) refuse(number int, err error) {
	s.refused++
	if s.refused > maxComplaints {
		return
	}
	s.progress.clear()
	fmt.Fprintf(s.stderr, "line %d: %s\n", number, printable(discreet(detail(err))))
	if s.refused == maxComplaints {
		fmt.Fprintln(s.stderr, "more are refused, and counted")
	}
}

// send publishes a batch. What the broker refuses is found by publishing one
// after the other.
func (s *sender) send(ctx context.Context, batch []posted) error {
	if s.limiter != nil && s.limiter.WaitN(ctx, len(batch)) != nil {
		return errors.New("interrupted")
	}
	err := s.publish(batch)
	switch {
	case err == nil:
		s.sent += len(batch)
		s.progress.add(len(batch))
		return nil
	case !errors.Is(err, broker.ErrRefused):
		return fmt.Errorf("lines %d to %d: %w", batch[0].number, batch[len(batch)-1].number, err)
	case len(batch) == 1:
		s.refuse(batch[0].number, err)
		return nil
	}
	for i := range batch {
		if err := s.send(ctx, batch[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// publish publishes a batch in one go if the broker can, else topic by topic.
func (s *sender) publish(batch []posted) error {
	topics, all := make([]string, len(batch)), make([]*message.Message, len(batch))
	byTopic := make(map[string][]*message.Message)
	for i, p := range batch {
		topics[i], all[i] = p.topic, p.msg
		byTopic[p.topic] = append(byTopic[p.topic], p.msg)
	}
	pub := s.client.Publisher()
	if wide, ok := pub.(outbox.MultiPublisher); ok {
		return wide.PublishTo(topics, all)
	}
	for topic, messages := range byTopic {
		if err := pub.Publish(topic, messages...); err != nil {
			return fmt.Errorf("%s: %w", strings.TrimSpace(topic), err)
		}
	}
	return nil
}
