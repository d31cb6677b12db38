package store

import (
	"errors"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/event-service-agent/timer-service/timer"
)

// ErrDropped says that the database took commands without an error, and did not write each row.
var ErrDropped = timer.Invalid(timer.ReasonRefused, "not every timer was written: a trigger on timer_schedules may drop rows")

// A Kind says which messages an [Application] applies.
type Kind int

// These are the kinds.
const (
	Schedules Kind = iota
	Cancels
	Events  // events that were published
	kindEnd // number of kinds
)

// A ByKind holds a text for each kind, such as a statement.
type ByKind [kindEnd]string

// An Application holds commands, or events that were published, on their way into a store.
// A store sorts them by key, reads the status of the timers, lets the Application decide, and
// writes one row for each timer that changes.
type Application struct {
	Kind    Kind
	Doing   string         // for errors
	Now     time.Time      // when timers are registered or canceled
	Results []timer.Result // one for each command

	key      func(i int) timer.Key
	apply    func(before timer.Status, i int) (after timer.Status, _ timer.Outcome)
	row      func(r *Row, i int)  // sets the fields of a row that come from the command which changed the timer
	message  func(i, end int) int // index behind the last command of the message of command i, at most end
	missing  timer.Outcome        // outcome of a command whose service call does not exist; zero: it is refused
	receipts func(results []timer.Result, first, end int) []timer.Receipt
}

// A Group holds the commands of one key.
type Group struct {
	Key           timer.Key
	Before, After timer.Status // of the timer
	Place         string       // address of the row of a known timer, by which PostgreSQL finds it again (ctid); empty on SQLite
	commands      []int        // in the order given
	winner        int          // the last one that changed the timer; -1 if none did
}

// A Row is a timer in the form that is written, with the names of the columns. Times are Unix
// milliseconds; an empty field is null.
type Row struct {
	rowKey
	CommandAt     int64       `json:"command_at"`
	CommandID     string      `json:"command_id"`
	State         timer.State `json:"state"`
	RegisteredAt  int64       `json:"registered_at"` // of a timer that is new
	DueAt         int64       `json:"due_at,omitzero"`
	ExpiresAt     int64       `json:"expires_at,omitzero"`
	ReachedAt     int64       `json:"reached_at,omitzero"`
	CanceledAt    int64       `json:"canceled_at,omitzero"`
	CorrelationID string      `json:"correlation_id,omitzero"`
	TraceParent   string      `json:"traceparent,omitzero"`
	TraceState    string      `json:"tracestate,omitzero"`
	Data          string      `json:"data,omitzero"`
	Place         string      `json:"place,omitzero"` // see [Group]
	WasCanceled   bool        `json:"was_canceled"`   // of a known timer
}

// A rowKey is a [timer.Key] with the names of the columns.
type rowKey struct {
	TenantID      timer.TenantID      `json:"tenant_id"`
	ServiceCallID timer.ServiceCallID `json:"service_call_id"`
}

// Schedule returns the application of commands.
func Schedule(now time.Time, commands []timer.ScheduleTimer) *Application {
	return &Application{
		Kind: Schedules, Doing: "schedule", Now: now, Results: make([]timer.Result, len(commands)),
		key: func(i int) timer.Key { return commands[i].Key },
		apply: func(before timer.Status, i int) (timer.Status, timer.Outcome) {
			c := &commands[i]
			if c.Moves != (timer.Version{}) {
				return before.Move(c)
			}
			return before.Schedule(version(before, c.Version, c.Latest))
		},
		row: func(r *Row, i int) {
			c := &commands[i]
			r.DueAt, r.ExpiresAt, r.CorrelationID = timer.RoundUp(c.DueAt).UnixMilli(), expiry(c.ExpiresAt), c.CorrelationID
			r.TraceParent, r.TraceState, r.Data = c.Trace.Parent, c.Trace.State, c.Data
		},
		message: func(i, end int) int { return i + timer.MessageLen(commands[i:end]) },
		receipts: func(results []timer.Result, first, end int) []timer.Receipt {
			return timer.Receipts(commands[first:end], results, now)
		},
	}
}

// Cancel returns the application of commands. A command whose service call does not exist,
// where a foreign key requires one, has no effect.
func Cancel(now time.Time, commands []timer.CancelTimer) *Application {
	return &Application{
		Kind: Cancels, Doing: "cancel", Now: now, Results: make([]timer.Result, len(commands)),
		key: func(i int) timer.Key { return commands[i].Key },
		apply: func(before timer.Status, i int) (timer.Status, timer.Outcome) {
			return before.Cancel(version(before, commands[i].Version, commands[i].Latest))
		},
		row:     func(r *Row, _ int) { r.CanceledAt = r.RegisteredAt },
		message: singly,
		missing: timer.WasCanceled,
		receipts: func(results []timer.Result, first, end int) []timer.Receipt {
			return timer.Receipts(commands[first:end], results, now)
		},
	}
}

// version returns the version that a command has for a timer.
func version(before timer.Status, v timer.Version, latest bool) timer.Version {
	if latest {
		return before.Follow(v)
	}
	return v
}

// expiry returns the time from which on a timer must not fire, or 0 if it may fire at any time.
func expiry(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return timer.RoundUp(t).UnixMilli()
}

// singly returns the index behind a command that is the only one of its message.
func singly(i, _ int) int { return i + 1 }

// Receipts returns the receipts of the commands that want one.
func (a *Application) Receipts(first, end int) []timer.Receipt {
	return a.receipts(a.Results[first:end], first, end)
}

// Apply applies the commands and returns their results. Step applies those from first to end,
// or none of them. If the database refuses a step, the commands are applied in two halves, and
// so on until a single message is refused. Valid commands are refused only if the host has
// given the table constraints or triggers of its own. Together calls a function that takes
// several steps; in a host's transaction it encloses them in a savepoint. It may be nil.
func (a *Application) Apply(step func(first, end int) error, together func(steps func() error) error) ([]timer.Result, error) {
	if together == nil {
		together = func(steps func() error) error { return steps() }
	}
	if err := a.applyFrom(0, len(a.Results), step, together); err != nil {
		return nil, err
	}
	return a.Results, nil
}

func (a *Application) applyFrom(first, end int, step func(first, end int) error, together func(func() error) error) error {
	err := step(first, end)
	if !errors.Is(err, timer.ErrInvalid) {
		return err
	}
	half := a.half(first, end)
	if half == end {
		for i := first; i < end; i++ {
			a.Results[i] = timer.Result{Err: err}
		}
		return nil
	}
	return together(func() error {
		if err := a.applyFrom(first, half, step, together); err != nil {
			return err
		}
		return a.applyFrom(half, end, step, together)
	})
}

// half returns the index at which to cut commands in two, between two messages. It returns end
// if they are of one message.
func (a *Application) half(first, end int) int {
	half := a.message(first, end)
	for next := half; 2*(half-first) < end-first && next < end; next = a.message(next, end) {
		half = next
	}
	return half
}

// refuseTogether gives all commands of a message the first error that one of them has.
func (a *Application) refuseTogether() {
	for first, end := 0, 0; first < len(a.Results); first = end {
		end = a.message(first, len(a.Results))
		message := a.Results[first:end]
		if i := slices.IndexFunc(message, func(r timer.Result) bool { return r.Err != nil }); i >= 0 {
			copy(message, slices.Repeat([]timer.Result{{Err: message[i].Err}}, len(message)))
		}
	}
}

// RefuseAbsent gives commands whose service call does not exist their results, and the
// other commands of their messages, and returns the groups that are left. Existing are the
// numbers of the groups whose service call exists, from 1 on.
func (a *Application) RefuseAbsent(groups []*Group, existing []int64) (left []*Group) {
	exists := make([]bool, len(groups))
	for _, n := range existing {
		exists[n-1] = true
	}
	for n, g := range groups {
		for _, i := range g.commands {
			switch {
			case exists[n]:
			case a.missing != 0:
				a.Results[i].Outcome = a.missing
			default:
				a.Results[i].Err = timer.Invalid(timer.ReasonRefused, "%s: there is no such service call", g.Key)
			}
		}
	}
	a.refuseTogether()
	return slices.DeleteFunc(groups, func(g *Group) bool {
		g.commands = slices.DeleteFunc(g.commands, func(i int) bool { return a.Results[i] != timer.Result{} })
		return len(g.commands) == 0
	})
}

// Groups sorts commands by key, and drops the results of earlier tries.
func (a *Application) Groups(first, end int) []*Group {
	clear(a.Results[first:end])
	return a.byKey(first, end)
}

// Keys returns the keys of commands as [Keys] does, and leaves their results.
func (a *Application) Keys(first, end int) string { return Keys(a.byKey(first, end)) }

func (a *Application) byKey(first, end int) []*Group {
	order := make([]int, 0, end-first)
	for i := first; i < end; i++ {
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(i, j int) int { return a.key(i).Compare(a.key(j)) })
	groups := make([]*Group, 0, len(order))
	for from, to := 0, 0; from < len(order); from = to {
		key := a.key(order[from])
		for to = from + 1; to < len(order) && a.key(order[to]) == key; {
			to++
		}
		groups = append(groups, &Group{Key: key, commands: order[from:to]})
	}
	return groups
}

// Decide applies the commands of each key to the status of its timer, and returns the groups
// that change their timer.
func (a *Application) Decide(groups []*Group) (changed []*Group) {
	changed = make([]*Group, 0, len(groups))
	for _, g := range groups {
		g.After, g.winner = g.Before, -1
		for _, i := range g.commands {
			next, outcome := a.apply(g.After, i)
			if a.Results[i] = (timer.Result{Outcome: outcome}); next != g.After {
				g.After, g.winner = next, i
			}
		}
		if g.winner >= 0 {
			changed = append(changed, g)
		}
	}
	return changed
}

// Keys returns keys as a JSON array, for one argument of a statement.
func Keys(groups []*Group) string {
	keys := make([]rowKey, len(groups))
	for n, g := range groups {
		keys[n] = rowKey(g.Key)
	}
	return JSON(keys)
}

// Rows returns the rows of timers.
func (a *Application) Rows(groups []*Group) []Row {
	rows := make([]Row, len(groups))
	for n, g := range groups {
		rows[n] = Row{
			rowKey: rowKey(g.Key), CommandAt: g.After.Version.TimestampMS, CommandID: g.After.Version.CommandID, State: g.After.State,
			RegisteredAt: a.Now.UnixMilli(), Place: g.Place, WasCanceled: g.Before.State == timer.Canceled,
		}
		a.row(&rows[n], g.winner)
	}
	return rows
}

// JSON returns rows as one argument of a statement.
func JSON[T any](rows []T) string {
	text, err := json.Marshal(rows, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		panic(err) // they have only texts and numbers
	}
	return string(text)
}
