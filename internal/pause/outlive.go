package pause

import (
	"context"
	"time"
)

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
