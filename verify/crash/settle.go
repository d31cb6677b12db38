package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/event-service-agent/timer-service/verify/crash/history"
)

const (
	pollInterval = 500 * time.Millisecond // between two polls whether all is done
	quiet        = 2 * time.Second        // without a new message, when all is at rest

	brokerTimeout = 5 * time.Second // for an answer of the broker
)

// settle waits at the end of a run until the service has finished, see [run.comeToRest].
func (r *run) settle(ctx context.Context) error {
	fmt.Fprintf(r.opt.Progress, "%d kills done, waiting for the service to come to rest\n", r.faults)
	if r.lost { // it had its time
		return r.awaitAll(ctx)
	}
	return r.comeToRest(ctx)
}

// comeToRest waits until the service, which nothing disturbs now, has finished: it
// has acked every command, every due time is over, nothing is missing, and
// nothing new arrives. After a time it gives up, and the verdict lists all that is
// missing.
func (r *run) comeToRest(ctx context.Context) error {
	if err := r.awaitAll(ctx); err != nil {
		return err
	}
	var due time.Time
	for _, s := range r.recorder.History().Sent {
		due = later(due, s.DueAt)
	}
	began := time.Now()
	last, lastAt := 0, began
	for {
		if err := r.rest(ctx, pollInterval); err != nil {
			return err
		}
		now := time.Now()
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
			return fmt.Errorf("%d events and dead letters of the stream were not read, so there is no verdict", unseen)
		case !still:
			r.breach(history.Unsettled, "%s after the last kill there are still new messages", r.opt.Settle)
		}
		return nil
	}
}

// pending returns how many commands the service has not acked, and how many of
// its messages were not recorded, as the broker counts.
func (r *run) pending(ctx context.Context) (open, unseen int, err error) {
	ctx, cancel := context.WithTimeout(ctx, brokerTimeout)
	defer cancel()
	return r.wire.pending(ctx, &r.recorder)
}

func (r *run) nothingMissing() bool {
	v := history.Check(r.recorder.History())
	return v.Count(history.Lost) == 0 && v.Count(history.NoDeadLetter) == 0
}

// cleanUp removes the directory of the run, or completes it if it has to be
// examined.
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
