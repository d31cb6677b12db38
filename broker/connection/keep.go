package connection

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/internal/retry"
)

// Fatal marks err as an error that no retry can help. It ends Run.
func Fatal(err error) error { return fatalError{err} }

type fatalError struct{ error }

// Unwrap returns the marked error.
func (e fatalError) Unwrap() error { return e.error }

func isFatal(err error) bool {
	_, fatal := errors.AsType[fatalError](err)
	return fatal
}

// keep dials and uses connections one after the other until ctx is done.
func (k *Keeper[C]) keep(ctx context.Context) error {
	var none C
	for failures := 1; ; failures++ {
		conn, err := k.opt.Dial(ctx)
		dialed, wasReady := err == nil, false
		if dialed {
			wasReady, err = k.use(ctx, conn)
		}
		switch {
		case isFatal(err):
			k.set(none, fmt.Errorf("%w: %w", ErrClosed, err))
		case ctx.Err() != nil:
			k.set(none, ErrClosed)
		default:
			k.report(ctx, none, fmt.Errorf("%w with %s: %w", ErrNotConnected, k.opt.Server, err))
		}
		if dialed {
			k.opt.Close(conn)
		}
		if isFatal(err) {
			return err
		}
		if wasReady {
			failures = 1
		}
		if !pause.For(ctx, retry.Connection.After(failures)) {
			k.set(none, ErrClosed)
			return nil
		}
	}
}

// use verifies a connection again and again, until it ends, ctx is done, or Verify
// returns a [Fatal]. It returns the reason, nil for ctx, and whether the connection was
// ever ready.
func (k *Keeper[C]) use(ctx context.Context, conn C) (wasReady bool, err error) {
	watching, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		defer close(ended)
		ended <- k.opt.Watch(watching, conn)
	}()
	defer func() {
		stop()
		for range ended {
			continue
		}
	}()
	for failures := 0; ; {
		wait := k.opt.Interval
		err := k.opt.Verify(ctx, conn)
		switch {
		case ctx.Err() != nil:
			return wasReady, nil
		case isFatal(err):
			return wasReady, err
		case err != nil:
			k.report(ctx, conn, err)
			failures++
			wait = retry.Verify.After(failures)
		default:
			k.report(ctx, conn, nil)
			wasReady, failures = true, 0
		}
		earliest := time.After(recheckInterval)
		select {
		case <-ctx.Done():
			return wasReady, nil
		case err := <-ended:
			return wasReady, cmp.Or(err, errors.New("the connection was closed"))
		case <-k.kick:
			<-earliest
		case <-time.After(wait):
		}
	}
}

// report changes the state, and logs it if it differs from the state before.
func (k *Keeper[C]) report(ctx context.Context, conn C, why error) {
	if !k.set(conn, why) {
		return
	}
	switch {
	case why == nil:
		k.log.InfoContext(ctx, "connected", append([]any{"broker", k.opt.Server}, k.opt.Attrs(conn)...)...)
	case errors.Is(why, broker.ErrUnavailable):
		k.log.WarnContext(ctx, "not connected, will retry", "broker", k.opt.Server, "error", why)
	default:
		k.log.WarnContext(ctx, "connected but not ready, will retry", "broker", k.opt.Server, "error", why)
	}
}

// set changes the state. It returns false if the text of why is the same as before.
func (k *Keeper[C]) set(conn C, why error) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	same := fmt.Sprint(k.why) == fmt.Sprint(why)
	k.conn, k.why = conn, why
	return !same
}
