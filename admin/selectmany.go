package admin

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/timer"
)

const (
	selectTimeout = 20 * time.Second // longest search for the timers of a selection
	firstSelected = 10               // timers that an answer shows
)

// A ManyCanceled is a CancelTimers and the timers that it selects.
type ManyCanceled struct {
	ID          string         `json:"id,omitempty" doc:"Id of the command. The timers that it canceled have it as commandId."`
	Result      string         `json:"result" enum:"counted,published" doc:"counted: a dry run, nothing was published. published: the broker has stored the command."`
	TenantID    timer.TenantID `json:"tenantId"`
	TimestampMS int64          `json:"timestampMs"`
	Timers      int            `json:"timers" doc:"How many timers it selects that were waiting when it was asked for."`
	First       []Timer        `json:"first,omitempty" doc:"The first of them, up to ten, without their data."`
}

// A ManyRescheduled is the result of moving the timers of a selection.
type ManyRescheduled struct {
	ManyCanceled
	Refused      int                   `json:"refused,omitempty" doc:"How many of them stay as they are, because they would be due after they expire."`
	FirstRefused []timer.ServiceCallID `json:"firstRefused,omitempty" doc:"The first of these, up to ten."`
	Next         string                `json:"next,omitempty" doc:"There was no time for all: send it as after, with the same by, to move the others."`
}

// A SelectionQuery says which timers of a tenant a request is about.
type SelectionQuery struct {
	TenantPath
	Prefix        string                `query:"prefix" maxLength:"128" example:"CALL" doc:"The timers whose service call begins so."`
	CorrelationID string                `query:"correlationId" flag:"correlated" maxLength:"128" example:"ID" doc:"The timers that carry it."`
	Calls         []timer.ServiceCallID `query:"call,explode" doc:"The timers of these service calls, up to 500."`
	DryRun        bool                  `query:"dryRun" doc:"Only count them."`
	TraceParent   string                `header:"traceparent"`
	TraceState    string                `header:"tracestate"`
}

type (
	rescheduleManyInput struct {
		SelectionQuery
		To    string `query:"to" example:"TIME" doc:"When they are due: RFC 3339 with a zone. In the past: at once."`
		In    string `query:"in" example:"90m" doc:"How long from now they are due; 0 is at once."`
		By    string `query:"by" example:"2h" doc:"How much later each is due than it was; negative: earlier. To repeat the request moves them again."`
		After string `query:"after" maxLength:"128" doc:"With by, go on: next of the answer before."`
	}
	cancelManyOutput struct {
		Status int
		Body   ManyCanceled
	}
	rescheduleManyOutput struct {
		Status int
		Body   ManyRescheduled
	}
)

// answer applies a command to the selection of a request.
func (q SelectionQuery) answer(ctx context.Context, a *actions, move timer.Move, after string) (status int, answer ManyRescheduled, err error) {
	c := timer.CancelTimers{
		TenantID: q.Tenant, Of: timer.Selection{Calls: q.Calls, Prefix: q.Prefix, CorrelationID: q.CorrelationID},
		Trace: CommandQuery{TraceParent: q.TraceParent, TraceState: q.TraceState}.trace(),
	}
	answer, err = a.many(ctx, timer.SelectionCommand{CancelTimers: c, Move: move}, after, q.DryRun)
	if invalid, is := errors.AsType[*timer.InvalidError](err); is { // the command has another name for the parameter
		err = timer.Invalid(invalid.Reason, "%s", strings.ReplaceAll(invalid.Detail, "serviceCallIds", "call"))
	}
	if q.DryRun {
		return http.StatusOK, answer, err
	}
	return http.StatusAccepted, answer, err
}

func (a *api) cancelMany(ctx context.Context, in *SelectionQuery) (*cancelManyOutput, error) {
	status, answer, err := in.answer(ctx, a.actions, timer.Move{}, "")
	return &cancelManyOutput{status, answer.ManyCanceled}, err
}

func (a *api) rescheduleMany(ctx context.Context, in *rescheduleManyInput) (*rescheduleManyOutput, error) {
	move, err := in.move(a.now())
	if err != nil {
		return nil, err
	}
	status, answer, err := in.answer(ctx, a.actions, move, in.After)
	return &rescheduleManyOutput{status, answer}, err
}

func (q rescheduleManyInput) move(now time.Time) (m timer.Move, err error) {
	if m.To, err = eitherTime(now, "to", q.To, "in", q.In); err == nil && q.By != "" {
		m.By, err = moveBy(q.By)
	}
	if err == nil && m.Validate() != nil {
		err = timer.Invalid(timer.ReasonMissingField, "give exactly one of to, in and by")
	}
	return m, err
}

// moveBy reads the duration by which timers move.
func moveBy(text string) (time.Duration, error) {
	size, earlier := strings.CutPrefix(text, "-")
	d, err := config.ParseWithUnit(size)
	if err != nil || d <= 0 {
		return 0, timer.Invalid(timer.ReasonBadField, "by must be a duration with a unit, such as 90s, 2h, 7d or -1h")
	}
	if earlier {
		d = -d
	}
	return d, nil
}

// many publishes a command for a person, newer than all commands of the timers that it selects,
// and returns these timers. A dry run publishes nothing. To move timers by a duration it
// publishes a command for each, of a version that follows the one which it has read, and begins
// after a service call.
func (a *actions) many(ctx context.Context, c timer.SelectionCommand, after string, dry bool) (answer ManyRescheduled, err error) {
	now := time.Now()
	c.Version = client.NewVersion(now)
	if err := c.Validate(); err != nil {
		return answer, err
	}
	answer.TenantID, answer.TimestampMS, answer.Result = c.TenantID, c.TimestampMS, "counted"
	target := string(c.TenantID) + " " + describe(c.Of)
	if c.By != 0 && !dry {
		answer.Result = "published"
		err = a.do(ctx, "reschedule timers", c.TenantID, target+" by "+c.By.String(), func() (string, error) {
			err := a.moveBy(ctx, c, after, &answer)
			return count(int64(answer.Timers), "timer"), err
		})
		return answer, err
	}
	newest, err := a.selected(ctx, c, &answer)
	if err != nil {
		return answer, err
	}
	if c.TimestampMS, err = a.after(now, c.TimestampMS, newest, "these timers"); err != nil {
		return answer, err
	}
	if answer.TimestampMS = c.TimestampMS; dry {
		return answer, nil
	}
	doing, command := "cancel timers", client.Command(c.CancelTimers)
	if c.IsMove() {
		doing, command, target = "reschedule timers", c.Reschedule(), target+" to "+stamp(c.To)
	}
	m, err := client.Message(command)
	if err != nil {
		return answer, err
	}
	answer.ID, answer.Result = c.CommandID, "published"
	return answer, a.do(ctx, doing, c.TenantID, target, func() (string, error) {
		return "command " + c.CommandID + ", " + count(int64(answer.Timers), "timer"), a.command(ctx, m)
	})
}

// moveBy publishes commands that move timers by a duration, page by page, as long as there is
// time.
func (a *actions) moveBy(ctx context.Context, c timer.SelectionCommand, after string, answer *ManyRescheduled) error {
	began := time.Now()
	f := c.Filter()
	f.After, f.Limit = after, timer.MaxPage
	err := timer.EachPage(ctx, &f, c.Of.Within(a.Timers.List), func(entries []timer.Entry) error {
		if time.Since(began) > selectTimeout {
			return errMore
		}
		var commands []*message.Message
		for _, e := range entries {
			if answer.add(c, e); c.Refuses(e) {
				continue
			}
			moved := c.Moved(e)
			moved.CommandID = client.NewVersion(began).CommandID
			m, err := client.Message(moved)
			if err != nil {
				return err
			}
			commands = append(commands, m)
		}
		return cmp.Or(a.publish(ctx, linesTimeout, commands...)...)
	})
	if errors.Is(err, errMore) {
		answer.Next, err = f.After, nil
	}
	return err
}

// add counts a timer that is selected.
func (m *ManyRescheduled) add(c timer.SelectionCommand, e timer.Entry) {
	if m.Timers++; m.Timers <= firstSelected {
		e.Data = ""
		m.First = append(m.First, show(e))
	}
	if !c.IsMove() || !c.Refuses(e) {
		return
	}
	if m.Refused++; m.Refused <= firstSelected {
		m.FirstRefused = append(m.FirstRefused, e.ServiceCallID)
	}
}

// describe says for people which timers are selected.
func describe(of timer.Selection) string {
	switch {
	case of.Prefix != "":
		return of.Prefix + "*"
	case of.CorrelationID != "":
		return "correlation " + of.CorrelationID
	case len(of.Calls) == 1:
		return string(of.Calls[0])
	}
	return count(int64(len(of.Calls)), "service call")
}

// selected counts the waiting timers of a selection, and returns the time of the newest of
// their commands.
func (a *actions) selected(ctx context.Context, c timer.SelectionCommand, into *ManyRescheduled) (newest int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, selectTimeout)
	defer cancel()
	f := c.Filter()
	f.Limit = timer.MaxPage
	err = timer.EachPage(ctx, &f, c.Of.Within(a.Timers.List), func(entries []timer.Entry) error {
		for _, e := range entries {
			newest = max(newest, e.TimestampMS)
			into.add(c, e)
		}
		return nil
	})
	return newest, err
}
