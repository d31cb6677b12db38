package admin

import (
	"cmp"
	"context"
	"errors"

	"github.com/event-service-agent/timer-service/timer"
)

// Refired is the result of publishing events again.
type Refired struct {
	DryRun       bool    `json:"dryRun" doc:"Nothing was published."`
	Events       int     `json:"events" doc:"How many events were published again, or would be."`
	First        []Timer `json:"first,omitempty" doc:"Timers of the first of them, up to ten, without their data."`
	Next         string  `json:"next,omitempty" doc:"There was no time for all: send it as after, with the same since and until, to go on."`
	Until        string  `json:"until" format:"date-time" doc:"Timers that were reached or expired before then."`
	CompleteFrom string  `json:"completeFrom" format:"date-time" doc:"Of timers that were reached or expired before then some may be deleted, and their events with them."`
}

type refireInput struct {
	TenantQuery
	Prefix string `query:"prefix" maxLength:"128" doc:"Only of timers whose service call begins so."`
	Since  Since  `query:"since" required:"true" doc:"Of timers that were reached or expired then or later: RFC 3339 with a zone, or a duration before now." example:"2h"`
	Until  Moment `query:"until" doc:"And before then. None: now."`
	After  string `query:"after" maxLength:"128" doc:"Go on: next of the answer before."`
	DryRun bool   `query:"dryRun" doc:"Only count them."`
}

func (a *api) refire(ctx context.Context, in *refireInput) (*reply[Refired], error) {
	now := a.now()
	did, err := a.actions.refire(ctx, timer.Refire{
		TenantID: in.Tenant, Prefix: in.Prefix, Since: in.Since.At(now), Until: in.Until.At(now), After: in.After, DryRun: in.DryRun,
	})
	did.DryRun = in.DryRun
	return &reply[Refired]{did}, err
}

// refire publishes events again. It needs the token of all tenants. It answers in time, with
// the place where the next request goes on if that was not all.
func (a *actions) refire(ctx context.Context, which timer.Refire) (Refired, error) {
	var did timer.Refired
	what := "publish events again"
	if which.DryRun {
		what = "" // changes nothing
	}
	err := a.operate(ctx, forgetTimeout, what, "", string(cmp.Or(which.TenantID, allTenants))+" since "+stamp(which.Since), func(ctx context.Context) (_ string, err error) {
		if did, err = a.Service.Refire(ctx, which); errors.Is(err, context.DeadlineExceeded) && did.Next != "" {
			err = errMore
		}
		return count(int64(did.Events), "event"), err
	})
	if errors.Is(err, errMore) { // the answer says so
		err = nil
	}
	shown := Refired{Events: did.Events, Next: did.Next, Until: stamp(did.Until), CompleteFrom: stamp(did.CompleteFrom)}
	for _, e := range did.First {
		e.Data = ""
		shown.First = append(shown.First, show(e))
	}
	return shown, err
}
