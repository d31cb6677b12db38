package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/event-service-agent/timer-service/client"
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

type (
	cancelManyInput struct {
		TenantPath
		Prefix        string                `query:"prefix" maxLength:"128" doc:"The timers whose service call begins so."`
		CorrelationID string                `query:"correlationId" maxLength:"128" doc:"The timers that carry it."`
		Calls         []timer.ServiceCallID `query:"call,explode" doc:"The timers of these service calls, up to 500."`
		DryRun        bool                  `query:"dryRun" doc:"Only count them."`
		TraceParent   string                `header:"traceparent"`
		TraceState    string                `header:"tracestate"`
	}
	cancelManyOutput struct {
		Status int
		Body   ManyCanceled
	}
)

func (a *api) cancelMany(ctx context.Context, in *cancelManyInput) (*cancelManyOutput, error) {
	c := timer.CancelTimers{
		TenantID: in.Tenant, Of: timer.Selection{Calls: in.Calls, Prefix: in.Prefix, CorrelationID: in.CorrelationID},
		Trace: CommandQuery{TraceParent: in.TraceParent, TraceState: in.TraceState}.trace(),
	}
	answer, err := a.actions.cancelMany(ctx, c, in.DryRun)
	if invalid, is := errors.AsType[*timer.InvalidError](err); is { // the command has another name for the parameter
		err = timer.Invalid(invalid.Reason, "%s", strings.ReplaceAll(invalid.Detail, "serviceCallIds", "call"))
	}
	status := http.StatusAccepted
	if in.DryRun {
		status = http.StatusOK
	}
	return &cancelManyOutput{status, answer}, err
}

// cancelMany publishes a command for a person, newer than all commands of the timers that it
// selects, and returns these timers. A dry run publishes nothing.
func (a *actions) cancelMany(ctx context.Context, c timer.CancelTimers, dry bool) (answer ManyCanceled, err error) {
	now := time.Now()
	c.Version = client.NewVersion(now)
	if err := c.Validate(); err != nil {
		return answer, err
	}
	newest, err := a.selected(ctx, c, &answer)
	if err != nil {
		return answer, err
	}
	if c.TimestampMS, err = a.after(now, c.TimestampMS, newest, "these timers"); err != nil {
		return answer, err
	}
	if answer.TenantID, answer.TimestampMS, answer.Result = c.TenantID, c.TimestampMS, "counted"; dry {
		return answer, nil
	}
	m, err := client.Marshaler{}.Marshal(c)
	if err != nil {
		return answer, err
	}
	answer.ID, answer.Result = c.CommandID, "published"
	return answer, a.do(ctx, "cancel timers", c.TenantID, string(c.TenantID)+" "+describe(c.Of), func() (string, error) {
		return fmt.Sprintf("command %s, %d timers", c.CommandID, answer.Timers), a.command(ctx, m)
	})
}

// describe says for people which timers are selected.
func describe(of timer.Selection) string {
	switch {
	case of.Prefix != "":
		return of.Prefix + "*"
	case of.CorrelationID != "":
		return "correlation " + of.CorrelationID
	}
	return count(int64(len(of.Calls)), "service call")
}

// selected counts the waiting timers of a selection, and returns the time of the newest of
// their commands.
func (a *actions) selected(ctx context.Context, c timer.CancelTimers, into *ManyCanceled) (newest int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, selectTimeout)
	defer cancel()
	f := c.Filter()
	f.Limit = timer.MaxPage
	err = timer.EachPage(ctx, &f, a.listOf(c.Of), func(entries []timer.Entry) error {
		for _, e := range entries {
			newest = max(newest, e.TimestampMS)
			if into.Timers++; into.Timers <= firstSelected {
				e.Data = ""
				into.First = append(into.First, show(e))
			}
		}
		return nil
	})
	return newest, err
}

// listOf returns a function that lists the waiting timers of a selection. The service calls
// that a selection names are one page.
func (a *actions) listOf(of timer.Selection) func(context.Context, timer.Filter) (timer.Page, error) {
	if len(of.Calls) == 0 {
		return a.timers.List
	}
	return func(ctx context.Context, f timer.Filter) (page timer.Page, err error) {
		for _, call := range of.Calls {
			e, err := a.timers.Get(ctx, timer.Key{TenantID: f.TenantID, ServiceCallID: call})
			if err != nil && !errors.Is(err, timer.ErrNotFound) {
				return page, err
			}
			if e.State == f.State {
				page.Entries = append(page.Entries, e)
			}
		}
		return page, nil
	}
}
