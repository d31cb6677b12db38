package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/internal/crash/history"
)

const (
	look  = 500 * time.Millisecond // between two looks at whether all is at rest
	quiet = 2 * time.Second        // without a new message, when all is at rest

	brokerPatience = 5 * time.Second // for an answer of the broker
)

// settle waits until the service, which is left in peace, has come to rest: it
// has acked every command, every due time is over, nothing is missing, and
// nothing new arrives. After a time it gives up, and the verdict tells what is
// missing.
func (r *run) settle(ctx context.Context) error {
	if err := r.awaitReady(ctx); err != nil {
		return err
	}
	var due time.Time
	for _, s := range r.recorder.History().Sent {
		due = later(due, s.DueAt)
	}
	fmt.Fprintf(r.opt.Progress, "%d kills done, waiting for the service to come to rest\n", r.struck)

	tick := time.NewTicker(look)
	defer tick.Stop()
	began := r.now()
	last, lastAt := 0, began
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.life.ended:
			if err := r.died(ctx); err != nil {
				return err
			}
		case <-tick.C:
		}
		now := r.now()
		if _, seen := r.recorder.Count(); seen != last {
			last, lastAt = seen, now
		}
		open, unseen, err := r.pending(ctx)
		still := err == nil && open == 0 && unseen == 0 && now.Sub(due) > quiet && now.Sub(lastAt) > quiet
		if still && r.nothingMissing() {
			return nil
		}
		if now.Sub(began) <= r.opt.Settle {
			continue
		}
		switch {
		case err != nil || open > 0:
			r.breach(history.Unsettled, "%s after the last kill %d commands wait for the service (%v)", r.opt.Settle, open, err)
		case unseen > 0:
			return fmt.Errorf("%d events and dead letters of the stream were not read, so nothing can be said", unseen)
		case !still:
			r.breach(history.Unsettled, "%s after the last kill there are still new messages", r.opt.Settle)
		}
		return nil
	}
}

// pending returns how many commands the service has not acked, and how many
// messages of the service the observer has not read, as the broker counts.
func (r *run) pending(ctx context.Context) (open, unseen int, err error) {
	ctx, cancel := context.WithTimeout(ctx, brokerPatience)
	defer cancel()
	if open, err = r.open(ctx); err != nil {
		return 0, 0, err
	}
	info, err := r.stream.Info(ctx, jetstream.WithSubjectFilter(history.AllTopics))
	if err != nil {
		return 0, 0, fmt.Errorf("look at the stream: %w", err)
	}
	for _, messages := range info.State.Subjects {
		unseen += int(messages)
	}
	_, seen := r.recorder.Count()
	return open, unseen - seen, nil
}

// open returns how many commands the service has not acked, as the broker counts.
func (r *run) open(ctx context.Context) (open int, err error) {
	consumers := r.stream.ListConsumers(ctx)
	durables := 0
	for c := range consumers.Info() {
		if isIntake(c.Config) {
			durables++
			open += int(c.NumPending) + c.NumAckPending
		}
	}
	if err := consumers.Err(); err != nil {
		return 0, fmt.Errorf("list the consumers: %w", err)
	}
	if durables == 0 {
		return 0, errors.New("the service has no durable consumer of its commands")
	}
	return open, nil
}

// isIntake reports whether a consumer is the one through which the service
// takes commands.
func isIntake(c jetstream.ConsumerConfig) bool {
	return c.Durable != "" && (c.FilterSubject == history.CommandsTopic || slices.Contains(c.FilterSubjects, history.CommandsTopic))
}

func (r *run) nothingMissing() bool {
	v := history.Check(r.recorder.History())
	return v.Count(history.Lost) == 0 && v.Count(history.Unburied) == 0
}

// cleanUp removes the directory of the run, or completes it if someone may want
// to look into it.
func (r *run) cleanUp(report *Report, failed error) error {
	if failed == nil && report.Violations() == 0 && !r.opt.Keep {
		report.Dir = ""
		return os.RemoveAll(r.dir)
	}
	text, err := json.Marshal(r.recorder.History())
	if err != nil {
		return fmt.Errorf("write the history: %w", err)
	}
	return os.WriteFile(filepath.Join(r.dir, "history.json"), text, 0o600)
}
