package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

const watchInterval = time.Second

// Watch checks every second that the schema is one that this binary knows, that the server is
// set to keep commits, and that the database is not older than it was. Now and then it folds
// counts, if there are any to fold: an idle service writes nothing. It returns nil when ctx
// is done. It returns an error that wraps [timer.ErrFatal] if the schema does not exist, or
// is newer and does not say that this binary may go on; if the server loses commits; or if
// the database was restored or failed over to a server that lagged.
func (s *Store) Watch(ctx context.Context) error {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for n := 0; ; n++ {
		err := s.check(ctx)
		if err == nil { // else other checks report the error
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
