package admin

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
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
	Tenants []TenantPause `json:"tenants,omitempty" doc:"Tenants whose firing is paused by name, in order."`
}

// A TenantPause says that no instance fires the timers of a tenant.
type TenantPause struct {
	TenantID timer.TenantID `json:"tenantId"`
	Pause
}

func showPause(p timer.Pause) Pause { return Pause{stamp(p.Since), stamp(p.Until), p.By} }

// showPauses returns the pauses, or nil if there are none.
func showPauses(pauses timer.Pauses) *Firing {
	if len(pauses) == 0 {
		return nil
	}
	return new(showFiring(pauses))
}

func showFiring(pauses timer.Pauses) (f Firing) {
	f.Paused, f.Pause = pauses[""].Paused(), showPause(pauses[""])
	for _, tenant := range slices.Sorted(maps.Keys(pauses)) {
		if tenant != "" {
			f.Tenants = append(f.Tenants, TenantPause{tenant, showPause(pauses[tenant])})
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

// An AuditEntry is a change that a person made, or tried to make.
type AuditEntry struct {
	At     string `json:"at" format:"date-time"`
	Who    string `json:"who"`
	What   string `json:"what"`
	Target string `json:"target"`
	Result string `json:"result"`
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
	Limited bool          `json:"limited" doc:"There are quotas: quotas_file is set."`
	Default *Limits       `json:"default,omitempty" doc:"Of tenants without limits of their own."`
	Tenants []TenantQuota `json:"tenants" nullable:"false" doc:"Tenants with limits of their own, and tenants that were active on this instance in the last minutes, in order."`
	Next    string        `json:"next,omitempty" doc:"Where the next page begins: send it as after. None after the last page."`
}

type (
	firingOutput struct{ Body Firing }
	pauseInput   struct {
		TenantQuery
		Until instant `query:"until" doc:"When timers fire again, as RFC 3339 with a zone. None: when firing is resumed." example:"2030-01-31T12:00:00Z"`
	}
	forgetInput struct {
		TenantPath
		Confirm string `query:"confirm" doc:"The tenant once more, as a guard."`
	}
	forgetOutput struct{ Body Forgotten }
	nodesOutput  struct{ Body Nodes }
	auditOutput  struct{ Body Audit }
	quotasInput  struct {
		TenantQuery
		Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"How many at most."`
		After string `query:"after" maxLength:"64" doc:"The page after this tenant: next of the page before."`
	}
	quotasOutput struct{ Body Quotas }
)

func (a *api) addOperations(limits *quota.Limiter) {
	add(a, "/v1/firing", "get-firing", "Whether timers fire, or firing is paused of all tenants or of some", adminToken, a.firing)
	pause := huma.Operation{OperationID: "pause-firing", Method: http.MethodPost, Path: "/v1/firing:pause", Summary: "Fire no timer of any tenant, or of one, until a time or until firing is resumed"}
	change(a, pause, adminToken, func(ctx context.Context, in *pauseInput) (*firingOutput, error) {
		if err := a.actions.pause(ctx, timer.TenantID(in.Tenant), in.Until.Time); err != nil {
			return nil, err
		}
		return a.firing(ctx, nil)
	})
	resume := huma.Operation{OperationID: "resume-firing", Method: http.MethodPost, Path: "/v1/firing:resume", Summary: "Fire again, overdue timers first. A tenant that was paused by name is resumed by name"}
	change(a, resume, adminToken, func(ctx context.Context, in *struct{ TenantQuery }) (*firingOutput, error) {
		if err := a.actions.resume(ctx, timer.TenantID(in.Tenant)); err != nil {
			return nil, err
		}
		return a.firing(ctx, nil)
	})
	forget := huma.Operation{OperationID: "forget-tenant", Method: http.MethodDelete, Path: "/v1/tenants/{tenant}", Summary: "Delete all timers and parked events of a tenant"}
	change(a, forget, adminToken, a.forget)
	add(a, "/v1/nodes", "list-nodes", "Instances that share the database", adminToken, a.nodes)
	add(a, "/v1/audit", "list-actions", "What people changed on this instance, newest first", adminToken, a.auditLog)
	add(a, "/v1/quotas", "list-quotas", "What tenants may have, and what they use", filtered, func(ctx context.Context, in *quotasInput) (*quotasOutput, error) {
		found, err := a.quotasOf(ctx, limits, timer.TenantID(in.Tenant), timer.TenantID(in.After), in.Limit)
		return &quotasOutput{found}, err
	})
}

func (a *api) firing(ctx context.Context, _ *struct{}) (*firingOutput, error) {
	pauses, err := a.timers.Firing(ctx, time.Now())
	return &firingOutput{showFiring(pauses)}, err
}

func (a *api) forget(ctx context.Context, in *forgetInput) (*forgetOutput, error) {
	if in.Confirm != in.Tenant {
		return nil, huma.Error422UnprocessableEntity("this deletes all timers of the tenant: repeat its name as ?confirm=" + in.Tenant)
	}
	sum, err := a.actions.forget(ctx, timer.TenantID(in.Tenant))
	more := errors.Is(err, errMore)
	if more {
		err = nil
	}
	return &forgetOutput{Forgotten{Counts(sum), !more}}, err
}

func (a *api) nodes(ctx context.Context, _ *struct{}) (*nodesOutput, error) {
	nodes, err := a.actions.nodes(ctx)
	return &nodesOutput{Nodes{all(nodes, func(n timer.Node) Node {
		return Node{n.ID, n.Host, n.PID, n.Version, stamp(n.Started), stamp(n.Seen), n.Self}
	})}}, err
}

func (a *api) auditLog(context.Context, *struct{}) (*auditOutput, error) {
	return &auditOutput{Audit{all(a.actions.audit.recent(), func(done action) AuditEntry {
		return AuditEntry{stamp(done.At), done.Who, done.What, done.Target, done.Result}
	})}}, nil
}

// quotasOf returns a page of the quotas and the usage of the tenants after one, or of one
// tenant only. Limits may be nil.
func (a *api) quotasOf(ctx context.Context, limits *quota.Limiter, tenant, after timer.TenantID, limit int) (Quotas, error) {
	found := Quotas{Tenants: []TenantQuota{}}
	if limits == nil {
		return found, nil
	}
	found.Limited, found.Default = true, new(showLimits(limits.Default()))
	tenants := []timer.TenantID{tenant}
	if tenant == "" {
		tenants = limits.Tenants(after, limit)
		if len(tenants) == limit {
			found.Next = string(tenants[limit-1])
		}
	}
	for _, t := range tenants {
		counts, err := a.timers.Stats(ctx, t)
		if err != nil {
			return found, err
		}
		waiting, err := waitingOf(ctx, a.waiting, t)
		if err != nil {
			return found, err
		}
		found.Tenants = append(found.Tenants, showQuota(limits.Usage(t), counts.Scheduled, waiting))
	}
	return found, nil
}

func showLimits(l quota.Limits) Limits {
	return Limits{
		LiveTimers: l.Live, AcceptRate: l.Accept.PerSecond, AcceptBurst: l.Accept.Burst, FireRate: l.Fire.PerSecond, FireBurst: l.Fire.Burst,
		HorizonMS: int64(l.Horizon / time.Millisecond), OverQuota: cmp.Or(l.Policy, quota.Delay),
	}
}

func showQuota(u quota.Usage, live int64, waiting *Waiting) TenantQuota {
	return TenantQuota{
		TenantID: u.TenantID, Own: u.Own, Limits: showLimits(u.Limits), LiveTimers: live, Waiting: cmp.Or(waiting, new(Waiting)).OverQuota, ExceededAt: stamp(u.Exceeded),
	}
}
