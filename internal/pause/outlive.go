package pause

import (
	"context"
	"time"
)

// WhileBoth returns a context of ctx that ends as soon as other does, too. Stop ends it,
// and must be called.
func WhileBoth(ctx, other context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	unwatch := context.AfterFunc(other, cancel)
	if other.Err() != nil { // if it is done already, the function runs a moment later
		cancel()
	}
	return ctx, func() {
		unwatch()
		cancel()
	}
}

// Outlive returns a context for work that the end of ctx must not interrupt at
// once: it ends after timeout (0: never), or grace after ctx has ended, whichever
// is first.
func Outlive(ctx context.Context, timeout, grace time.Duration) (context.Context, context.CancelFunc) {
	outliving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	if timeout > 0 {
		outliving, cancel = context.WithTimeout(context.WithoutCancel(ctx), timeout)
	}
	stop := context.AfterFunc(ctx, func() {
		t := time.AfterFunc(grace, cancel)
		context.AfterFunc(outliving, func() { t.Stop() })
	})
	return outliving, func() {
		stop()
		cancel()
	}
}
