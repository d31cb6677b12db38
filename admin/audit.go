package admin

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// maxActions is how many actions an [audit] remembers.
const maxActions = 200

// AuditMessage is the message of the log line of each change that a person makes.
const AuditMessage = "an operator changed something"

// An action is a change that a person made, or tried to make.
type action struct {
	At     time.Time
	Who    string // address of the client, and the tenant whose token it showed
	What   string // such as "cancel" or "discard dead letter"
	Target string // the changed object, such as "acme.order-1"
	Result string // "done", a count, or why it was refused or failed and how far it got
}

// An audit remembers the last actions, and logs each. It is safe for concurrent use.
type audit struct {
	log *slog.Logger

	mu   sync.Mutex
	last []action // newest first
}

// add records an action and its result, which may be empty if it is just done. With an error,
// the result says how far it got.
func (a *audit) add(ctx context.Context, what, target, result string, err error) {
	switch {
	case err != nil && isRefusal(err):
		result = "refused: " + err.Error()
	case err != nil:
		result = strings.TrimSuffix("failed: "+err.Error()+"; "+result, "; ")
	}
	result = cmp.Or(result, "done")
	done := action{At: time.Now(), Who: accessOf(ctx).who, What: what, Target: target, Result: result}
	a.log.InfoContext(ctx, AuditMessage, "who", done.Who, "what", what, "target", target, "result", result)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last = slices.Insert(a.last, 0, done)
	a.last = a.last[:min(len(a.last), maxActions)]
}

// isRefusal reports whether an error is about the request, so that nothing was changed: its
// answer is 4xx.
func isRefusal(err error) bool {
	problem := explain(err)
	return problem != nil && problem.GetStatus() < http.StatusInternalServerError
}

// recent returns the remembered actions, newest first.
func (a *audit) recent() []action {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.last)
}
