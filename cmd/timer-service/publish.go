package main

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/time/rate"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/internal/apiclient"
)

// maxBatch is how many commands one request has. After an interrupt that many are still sent.
const maxBatch = 250

// maxErrors is how many refused lines are printed with their reason.
const maxErrors = 20

var errInterrupted = errors.New("interrupted")

type publishCmd struct {
	File string    `arg:"" help:"File with one envelope a line; - is stdin."`
	Rate perSecond `placeholder:"N" help:"The most messages per second; 0 is no limit."`
}

// Help is printed below the summary.
func (publishCmd) Help() string {
	return `Has a running service publish each line as a message, to the commands of the tenant
that the line names. A line that is not a valid ScheduleTimer, ScheduleTimers or
CancelTimer is reported by its number, the others are published, and the exit code
is 1. jq -c makes a line of an envelope that has several.

After an interrupt or a crash, publish the file again: each line is published once
more, and the service ignores versions that it has.

Examples:

    timer-service publish commands.jsonl
    timer-service publish --rate 500 - < commands.jsonl`
}

// Run publishes the messages.
func (p *publishCmd) Run(ctx context.Context, e *env) error {
	in, err := e.input("publish", p.File)
	if err != nil {
		return err
	}
	defer in.Close()
	c, err := e.service(ctx)
	if err != nil {
		return err
	}
	s := &requestPublisher{client: c, env: e, progress: progress{w: e.stderr}, batch: maxBatch}
	if p.Rate > 0 {
		s.batch = min(max(int(p.Rate/10), 1), maxBatch)
		s.limiter = rate.NewLimiter(rate.Limit(p.Rate), s.batch)
	}
	err = s.sendAll(ctx, readLines(ctx, in))
	e.out.print(sentCount{resultPublished, s.sent, s.refused}, fmt.Sprintf("%d published, %d refused", s.sent, s.refused))
	switch {
	case err != nil:
		return fmt.Errorf("%w; publish it again from the start: lines that were published already change nothing", err)
	case s.refused > 0:
		return fmt.Errorf("messages refused: %d", s.refused)
	}
	return nil
}

// A requestPublisher makes a service publish commands, many with one request.
type requestPublisher struct {
	client   *apiclient.Client
	env      *env
	progress progress
	batch    int           // most commands in one request
	limiter  *rate.Limiter // nil if there is no limit

	pending [][]byte // commands that were not sent yet
	numbers []int    // line numbers of pending
	bytes   int      // size of pending

	sent, refused int
}

// A sentCount is how many messages of a file were published.
type sentCount struct {
	Result   string `json:"result"`
	Messages int    `json:"messages"`
	Refused  int    `json:"refused"`
}

// sendAll publishes each line, until there are no more lines or ctx ends.
func (s *requestPublisher) sendAll(ctx context.Context, lines fileLines) error {
	for {
		select {
		case l, more := <-lines.all:
			if !more {
				return errors.Join(s.flush(ctx), <-lines.failed)
			}
			if len(l.body) > maxLine {
				s.refuse(l.number, fmt.Sprintf("longer than %d KiB", maxLine>>10))
			} else if err := s.add(ctx, l); err != nil {
				return err
			}
		case <-ctx.Done():
			return errInterrupted
		}
		if len(lines.all) == 0 { // the next line may take long
			if err := s.flush(ctx); err != nil {
				return err
			}
		}
	}
}

// add adds a line to the batch, and publishes the batch before if it is full.
func (s *requestPublisher) add(ctx context.Context, l line) error {
	if s.bytes+len(l.body) > maxBatchBytes || len(s.pending) == s.batch {
		if err := s.flush(ctx); err != nil {
			return err
		}
	}
	s.pending, s.numbers = append(s.pending, l.body), append(s.numbers, l.number)
	s.bytes += len(l.body)
	return nil
}

// maxBatchBytes leaves space for the separators between commands in a request.
const maxBatchBytes = admin.MaxCommandsBytes - 2*maxBatch

// flush publishes the pending commands. A request that has begun when ctx ends is finished,
// so that its commands are counted.
func (s *requestPublisher) flush(ctx context.Context) error {
	batch, numbers := s.pending, s.numbers
	if s.pending, s.numbers, s.bytes = nil, nil, 0; len(batch) == 0 {
		return nil
	}
	if ctx.Err() != nil || s.limiter != nil && s.limiter.WaitN(ctx, len(batch)) != nil {
		return errInterrupted
	}
	results, err := s.client.Publish(context.WithoutCancel(ctx), batch)
	for i, r := range results {
		switch r.Result {
		case admin.Published:
			s.sent++
		case admin.Refused:
			s.refuse(numbers[i], r.Detail)
		default:
			err = errors.New(r.Detail)
		}
	}
	s.progress.add(resultPublished, len(batch))
	if err != nil {
		return fmt.Errorf("lines %d to %d: %w", numbers[0], numbers[len(numbers)-1], err)
	}
	return nil
}

// refuse counts a line that is not published, and prints the reason.
func (s *requestPublisher) refuse(number int, why string) {
	s.refused++
	if s.refused > maxErrors {
		return
	}
	fmt.Fprintf(s.env.stderr, "line %d: %s\n", number, printable(redact(why)))
	if s.refused == maxErrors {
		fmt.Fprintln(s.env.stderr, "further refused lines are only counted")
	}
}
