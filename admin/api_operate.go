package admin

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// A Pause says since when timers do not fire, until when, and who paused them.
type Pause struct {
	Since string `json:"since,omitempty" format:"date-time"`
	Until string `json:"until,omitempty" format:"date-time" doc:"When timers fire again. None: when firing is resumed."`
	By    string `json:"by,omitempty" doc:"Who paused it."`
}

// Firing says whether timers fire.
type Firing struct {
	Paused bool `json:"paused" doc:"No instance that shares the database fires timers of any tenant. Commands are taken, and events that wait are published."`
	Pause
	Tenants  []TenantPause `json:"tenants,omitempty" doc:"Tenants whose firing is paused by name, in order."`
	NotReady []string      `json:"notReady,omitempty" doc:"Parts of the instance that answers which do not work, and why: timers may not fire, or their events wait, though nothing is paused."`
	Hint     string        `json:"hint,omitempty" doc:"For people: a likely mistake in the request."`
}

// A TenantPause says that no instance fires the timers of a tenant.
type TenantPause struct {
	TenantID timer.TenantID `json:"tenantId"`
	Pause
}

func showPause(p timer.Pause) Pause { return Pause{stamp(p.Since), stamp(p.Until), p.By} }

// showFiring returns the pauses, and the names that do not work on this instance.
func (a *api) showFiring(pauses timer.Pauses) (f Firing) {
	f.Paused, f.Pause = pauses[""].Paused(), showPause(pauses[""])
	for _, tenant := range slices.Sorted(maps.Keys(pauses)) {
		if tenant != "" {
			f.Tenants = append(f.Tenants, TenantPause{tenant, showPause(pauses[tenant])})
		}
	}
	if a.Monitor == nil {
		return f
	}
	for _, c := range a.Monitor.Checks() {
		if c.Red {
			f.NotReady = append(f.NotReady, c.Part+": "+c.Reason)
		}
	}
	return f
}

// Forgotten says how many records of a tenant were deleted.
type Forgotten struct {
	Deleted  Counts `json:"deleted"`
	Complete bool   `json:"complete" doc:"Nothing is left. If not, there was no time for all: ask again."`
}

// A Node is an instance of the service.
type Node struct {
	ID      string `json:"id"`
	Host    string `json:"host"`
	PID     int    `json:"pid"`
	Version string `json:"version,omitempty"`
	Started string `json:"started" format:"date-time"`
	Seen    string `json:"seen" format:"date-time" doc:"Its last sign of life."`
	Self    bool   `json:"self" doc:"It is the one that answers."`
}

// Nodes are the instances that share the database.
type Nodes struct {
	Nodes []Node `json:"nodes" nullable:"false"`
}

// Audit lists the changes that people made on this instance.
type Audit struct {
	Actions []AuditEntry `json:"actions" nullable:"false" doc:"The last 200 since the start of this instance, newest first."`
}

// Limits are the quotas of a tenant. A field that is left out is not limited.
type Limits struct {
	LiveTimers  int64        `json:"liveTimers,omitempty" doc:"How many timers may wait to fire."`
	AcceptRate  float64      `json:"acceptRate,omitempty" doc:"Timers a second that are accepted, by all instances together."`
	AcceptBurst int          `json:"acceptBurst,omitempty"`
	FireRate    float64      `json:"fireRate,omitempty" doc:"Timers a second that fire, by all instances together."`
	FireBurst   int          `json:"fireBurst,omitempty"`
	HorizonMS   int64        `json:"horizonMs,omitempty" doc:"How far ahead a due time may lie."`
	ExpireMS    int64        `json:"expireAfterMs,omitempty" doc:"How long after its due time a timer expires whose command names no expiry."`
	ObjectiveMS int64        `json:"latenessObjectiveMs" doc:"How late its events may be."`
	OverQuota   quota.Policy `json:"overQuota" enum:"delay,dead_letter"`
}

// A TenantQuota has the quotas and the usage of a tenant.
type TenantQuota struct {
	TenantID   timer.TenantID `json:"tenantId"`
	Own        bool           `json:"own" doc:"It has limits of its own."`
	Limits     Limits         `json:"limits"`
	LiveTimers int64          `json:"liveTimers" doc:"How many timers wait to fire."`
	Waiting    int64          `json:"waiting,omitempty" doc:"How many of its commands wait in the inbox, since they exceed a limit."`
	ExceededAt string         `json:"exceededAt,omitempty" format:"date-time" doc:"When it last exceeded a limit on this instance, in the last minutes."`
}

// Quotas are a page of tenants with their quotas.
type Quotas struct {
	Hint    string        `json:"hint,omitempty" doc:"For people: why there are none."`
	Limited bool          `json:"limited" doc:"There are quotas: quotas_file is set."`
	Default *Limits       `json:"default,omitempty" doc:"Of tenants without limits of their own."`
	Tenants []TenantQuota `json:"tenants" nullable:"false" doc:"Tenants with limits of their own, and tenants that were active on this instance in the last minutes, in order."`
	Next    string        `json:"next,omitempty" doc:"Where the next page begins: send it as after. None after the last page."`
}

type (
	pauseInput struct {
		TenantQuery
		Until Moment `query:"until" doc:"When timers fire again: RFC 3339 with a zone, or a duration from now on. None: when firing is resumed." example:"2h"`
	}
	forgetInput struct {
		TenantPath
		Confirm timer.TenantID `query:"confirm" doc:"The tenant once more, as a guard."`
	}
	quotasInput struct {
		TenantQuery
		Limit int            `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"The most items of the answer."`
		After timer.TenantID `query:"after" maxLength:"64" doc:"The page after this tenant: next of the page before."`
	}
)

func (a *api) pause(ctx context.Context, in *pauseInput) (*reply[Firing], error) {
	if err := a.actions.pause(ctx, in.Tenant, in.Until.At(a.now())); err != nil {
		return nil, err
	}
	return a.firingOf(ctx, in.Tenant, " Its pause holds for timers that it schedules")
}

func (a *api) resume(ctx context.Context, in *TenantQuery) (*reply[Firing], error) {
	if err := a.actions.resume(ctx, in.Tenant); err != nil {
		return nil, err
	}
	return a.firingOf(ctx, in.Tenant, "")
}

// firingOf is firing, with a hint if a tenant was named that has no timers.
func (a *api) firingOf(ctx context.Context, tenant timer.TenantID, more string) (*reply[Firing], error) {
	out, err := a.firing(ctx, nil)
	if tenant == "" {
		return out, err
	}
	if counts, unknown := a.Timers.Stats(ctx, tenant); unknown == nil && counts.Total() == 0 {
		out.Body.Hint = "the tenant " + string(tenant) + " has no timers: is that its name?" + more
	}
	return out, err
}

func (a *api) firing(ctx context.Context, _ *struct{}) (*reply[Firing], error) {
	pauses, err := a.Timers.Firing(ctx, a.now())
	return &reply[Firing]{a.showFiring(pauses)}, err
}

func (a *api) forget(ctx context.Context, in *forgetInput) (*reply[Forgotten], error) {
	if in.Confirm != in.Tenant {
		return nil, huma.Error422UnprocessableEntity("this deletes all timers of the tenant: repeat its name as ?confirm=" + string(in.Tenant))
	}
	sum, err := a.actions.forget(ctx, in.Tenant)
	more := err != nil && sum.Total() > 0 // the next call has the error, if it lasts
	if more {
		err = nil
	}
	return &reply[Forgotten]{Forgotten{Counts(sum), !more}}, err
}

func (a *api) nodes(ctx context.Context, _ *struct{}) (*reply[Nodes], error) {
	nodes, err := a.actions.nodes(ctx)
	return &reply[Nodes]{Nodes{all(nodes, func(n timer.Node) Node {
		return Node{n.ID, n.Host, n.PID, n.Version, stamp(n.Started), stamp(n.Seen), n.Self}
	})}}, err
}

func (a *api) auditLog(context.Context, *struct{}) (*reply[Audit], error) {
	return &reply[Audit]{Audit{a.audit.recent()}}, nil
}

// quotas answers with a page of the quotas and the usage of tenants, or of one tenant only.
func (a *api) quotas(ctx context.Context, in *quotasInput) (*reply[Quotas], error) {
	found, err := a.quotasOf(ctx, *in)
	return &reply[Quotas]{found}, err
}

func (a *actions) quotasOf(ctx context.Context, in quotasInput) (Quotas, error) {
	found := Quotas{Tenants: []TenantQuota{}}
	if a.Quotas == nil {
		found.Hint = "there are no quotas: quotas_file is not set"
		return found, nil
	}
	found.Limited, found.Default = true, new(showLimits(a.Quotas.Default()))
	tenants := []timer.TenantID{in.Tenant}
	if in.Tenant == "" {
		tenants = a.Quotas.Tenants(in.After, in.Limit)
		if len(tenants) == in.Limit {
			found.Next = string(tenants[in.Limit-1])
		}
	}
	for _, t := range tenants {
		counts, err := a.Timers.Stats(ctx, t)
		var waiting *Waiting
		if err == nil {
			waiting, err = a.waitingOf(ctx, t)
		}
		if n := len(found.Tenants); err != nil && n > 0 && errors.Is(ctx.Err(), context.DeadlineExceeded) { // the next page has the others
			found.Next = string(found.Tenants[n-1].TenantID)
			return found, nil
		}
		if err != nil {
			return found, err
		}
		u := a.Quotas.Usage(t)
		found.Tenants = append(found.Tenants, TenantQuota{
			t, u.Own, showLimits(u.Limits), counts.Scheduled, cmp.Or(waiting, new(Waiting)).OverQuota, stamp(u.Exceeded),
		})
	}
	return found, nil
}

func showLimits(l quota.Limits) Limits {
	return Limits{
		LiveTimers: l.Live, AcceptRate: l.Accept.PerSecond, AcceptBurst: l.Accept.Burst, FireRate: l.Fire.PerSecond, FireBurst: l.Fire.Burst,
		HorizonMS: int64(l.Horizon / time.Millisecond), ExpireMS: int64(l.ExpireAfter / time.Millisecond), ObjectiveMS: cmp.Or(l.Objective, quota.DefaultObjective).Milliseconds(), OverQuota: cmp.Or(l.Policy, quota.Delay),
	}
}
