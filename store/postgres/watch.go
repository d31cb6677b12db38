package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

const watchInterval = time.Second

// Watch checks every second whether the schema is still one that this binary
// knows, the server still one that it trusts, and the database no older than it was,
// and folds counts now and then if there are any to fold: an idle service writes
// nothing. It returns nil when
// ctx is done, and an error that wraps [timer.ErrFatal] if the schema is newer and
// does not say that this binary may go on, gone, the server loses commits, or the
// database was restored or failed over to a server that lagged.
func (s *Store) Watch(ctx context.Context) error {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for n := 0; ; n++ {
		err := s.check(ctx)
		if err == nil { // if not, others tell why
			if err = s.foldIfDue(ctx, n%foldEvery == 0); err != nil && ctx.Err() == nil {
				s.opt.Log.WarnContext(ctx, "counts of timers can't be summed up, will retry", "error", err, "retry_in", watchInterval)
			}
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, timer.ErrFatal):
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (s *Store) check(ctx context.Context) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	if err := s.CheckServer(ctx); err != nil {
		return classify("check the server", err)
	}
	if err := verifyRunning(ctx, s.db); err != nil {
		return err
	}
	return s.notOlder(ctx)
}
