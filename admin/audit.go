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

// An AuditEntry is a change that a person made, or tried to make.
type AuditEntry struct {
	Time   time.Time `json:"-"`
	At     string    `json:"at" format:"date-time"` // the same for programs
	Who    string    `json:"who"`                   // address of the client, and the name of the token that it showed
	What   string    `json:"what"`                  // such as "cancel timers" or "discard dead letters"
	Target string    `json:"target"`                // the changed object, such as "acme order-1"
	Result string    `json:"result"`                // "done", a count, or why it was refused or failed and how far it got
}

// An audit remembers the last actions, and logs each. It is safe for concurrent use.
type audit struct {
	log *slog.Logger

	mu   sync.Mutex
	last []AuditEntry // newest first
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
	now := time.Now()
	done := AuditEntry{now, stamp(now), accessOf(ctx).who, what, target, result}
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
func (a *audit) recent() []AuditEntry {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]AuditEntry{}, a.last...) // none is a list, too
}
