package admin

import (
	"context"
	"slices"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// Counts are numbers of timers by state.
type Counts struct {
	Scheduled int64 `json:"scheduled"`
	Reached   int64 `json:"reached" doc:"Fired, and not purged yet."`
	Expired   int64 `json:"expired" doc:"Expired before they could fire, and not purged yet."`
	Canceled  int64 `json:"canceled" doc:"Not purged yet."`
}

// A Tenant is a tenant that has timers.
type Tenant struct {
	TenantID timer.TenantID `json:"tenantId"`
	Counts
	Pause *Pause `json:"pause,omitempty" doc:"Its timers do not fire: firing is paused, of it or of all tenants."`
}

func showTenant(tenant timer.TenantID, c timer.Counts, pauses timer.Pauses, now time.Time) Tenant {
	t := Tenant{TenantID: tenant, Counts: Counts(c)}
	if p := pauses.Of(tenant, now); p.Paused() {
		t.Pause = new(showPause(p))
	}
	return t
}

// Tenants are a page of tenants.
type Tenants struct {
	Tenants []Tenant `json:"tenants" nullable:"false"`
	Next    string   `json:"next,omitempty" doc:"Where the next page begins: send it as after. None after the last page. A page may be empty."`
}

// Stats are counts over all tenants.
type Stats struct {
	Counts
	NextDue       string `json:"nextDue,omitempty" format:"date-time" doc:"Earliest due time of all that are scheduled."`
	Overdue       int64  `json:"overdue" doc:"Scheduled timers that were due before now; 10000 may stand for more."`
	Paused        int64  `json:"paused,omitempty" doc:"Timers that are due and wait until firing is resumed; 10000 of a tenant may stand for more. They are none of overdue."`
	Held          int64  `json:"held,omitempty" doc:"Timers that are due and wait for the fire_rate of their tenant; 10000 of a tenant may stand for more. They are none of overdue."`
	OldestOverdue string `json:"oldestOverdue,omitempty" format:"date-time"`
	Outbox        int64  `json:"outbox" doc:"Events that are not published yet."`
	Oldest        string `json:"oldest,omitempty" format:"date-time" doc:"When the oldest of them came to the outbox."`
	OldestDue     string `json:"oldestDue,omitempty" format:"date-time" doc:"When its timer was due."`
	Parked        int64  `json:"parked" doc:"Events that the broker refused for good."`

	Failing     []FailingDestination `json:"failing,omitempty" doc:"Destinations that take no events, up to 100; none if all that were tried do."`
	Waiting     *Waiting             `json:"waiting,omitempty" doc:"Commands that wait in the inbox; none if there are none."`
	Firing      *Firing              `json:"firing,omitempty" doc:"Pauses, and names of timers that do not fire; none while all timers fire."`
	Unprotected *Unprotected         `json:"unprotected,omitempty" doc:"Timers that only a backup protects; none if that is not known."`
}

// A FailingDestination takes no events.
type FailingDestination struct {
	Destination string `json:"destination" doc:"The topic, and the partition if the broker names it; of a handler the tenant and the prefix."`
	Events      int64  `json:"events" doc:"Events that wait for it; 1000 may stand for more, on PostgreSQL for each instance."`
	Oldest      string `json:"oldest" format:"date-time" doc:"When the oldest of them came to the outbox."`
	Reason      string `json:"reason" doc:"Why it did not take the event that was tried most often."`
}

// Unprotected counts the waiting timers that only a backup protects.
type Unprotected struct {
	Timers    int64  `json:"timers" doc:"How many: the broker does not have their commands any more, or keeps nothing."`
	More      bool   `json:"more,omitempty" doc:"There may be more: there are too many timers to look at all."`
	Oldest    string `json:"oldest,omitempty" format:"date-time" doc:"When the oldest of their commands was sent; none if that is not known."`
	Before    string `json:"before,omitempty" format:"date-time" doc:"Their commands are older than this, which is since when the broker has all; none if it keeps nothing."`
	CountedAt string `json:"countedAt" format:"date-time" doc:"They are counted about once a minute."`
}

func newUnprotected(count func() timer.Unprotected) *Unprotected {
	if count == nil {
		return nil
	}
	u := count()
	if u.At.IsZero() {
		return nil
	}
	return &Unprotected{u.Timers, u.More, stamp(u.Oldest), stamp(u.Before), stamp(u.At)}
}

// TenantStats are the counts of one tenant.
type TenantStats struct {
	Tenant
	Overdue       int64  `json:"overdue" doc:"Scheduled timers that were due before now; 10000 may stand for more."`
	Paused        int64  `json:"paused,omitempty" doc:"Timers that are due and wait until firing is resumed; 10000 may stand for more. They are none of overdue."`
	Held          int64  `json:"held,omitempty" doc:"Timers that are due and wait for the fire_rate of their tenant; 10000 of a tenant may stand for more. They are none of overdue."`
	OldestOverdue string `json:"oldestOverdue,omitempty" format:"date-time"`

	Waiting *Waiting `json:"waiting,omitempty" doc:"Its commands that wait in the inbox; none if there are none."`
}

// A Waiting counts messages that wait in the inbox.
type Waiting struct {
	OverQuota int64  `json:"overQuota,omitempty" doc:"Messages whose commands exceed a quota of their tenant."`
	Failed    int64  `json:"failed,omitempty" doc:"Messages whose handling failed. They are tried again."`
	Bytes     int64  `json:"bytes" doc:"Size of all."`
	Oldest    string `json:"oldest" format:"date-time" doc:"When the first of them came."`
}

// waitingOf counts the messages of a tenant, or of all if it is empty, that wait. It returns nil
// if none does, or if that is not known.
func (a *actions) waitingOf(ctx context.Context, tenant timer.TenantID) (*Waiting, error) {
	if a.Waiting == nil {
		return nil, nil
	}
	counts, err := a.Waiting(ctx, tenant)
	if err != nil || len(counts) == 0 {
		return nil, err
	}
	first := slices.MinFunc(counts, func(x, y timer.InboxCount) int { return x.Oldest.Compare(y.Oldest) })
	w := &Waiting{Oldest: stamp(first.Oldest)}
	for _, c := range counts {
		if c.Reason == timer.WaitQuota {
			w.OverQuota += c.Messages
		} else {
			w.Failed += c.Messages
		}
		w.Bytes += c.Bytes
	}
	return w, nil
}

type tenantsInput struct {
	Limit int            `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"The most items of the answer."`
	After timer.TenantID `query:"after" maxLength:"64" pattern:"^[A-Za-z0-9][A-Za-z0-9_-]*$" doc:"The page after this tenant: next of the page before."`
}

func (a *api) tenants(ctx context.Context, in *tenantsInput) (*reply[Tenants], error) {
	now := a.now()
	pauses, err := a.Timers.Firing(ctx, now)
	if err != nil {
		return nil, err
	}
	page, next, err := a.tenantsAfter(ctx, in.After, in.Limit)
	return &reply[Tenants]{Tenants{all(page, func(t timer.TenantCounts) Tenant { return showTenant(t.TenantID, t.Counts, pauses, now) }), next}}, err
}

// tenantsAfter returns a page of tenants after one, and where the next page begins. If the
// request may see one tenant only, that is the page.
func (a *actions) tenantsAfter(ctx context.Context, after timer.TenantID, limit int) (page []timer.TenantCounts, next string, err error) {
	if one := accessOf(ctx).tenant; one != "" {
		stats, err := a.Timers.Stats(ctx, one)
		return []timer.TenantCounts{{TenantID: one, Counts: stats.Counts}}, "", err
	}
	page, err = a.Timers.Tenants(ctx, after, limit)
	if len(page) == limit {
		next = string(page[limit-1].TenantID)
	}
	return page, next, err
}

// statsOf returns the counts of a tenant, or of all tenants if it is empty, and how many of the
// timers are overdue.
func (a *actions) statsOf(ctx context.Context, tenant timer.TenantID, now time.Time) (timer.Stats, timer.Overdue, error) {
	s, err := a.Timers.Stats(ctx, tenant)
	if err != nil {
		return s, timer.Overdue{}, err
	}
	o, err := a.Timers.Overdue(ctx, tenant, now)
	return s, o, err
}

func (a *api) stats(ctx context.Context, _ *struct{}) (*reply[Stats], error) {
	now := a.now()
	s, o, err := a.statsOf(ctx, "", now)
	if err != nil {
		return nil, err
	}
	waiting, err := a.waitingOf(ctx, "")
	if err != nil {
		return nil, err
	}
	failing, err := a.Timers.Failing(ctx)
	if err != nil {
		return nil, err
	}
	pauses, err := a.Timers.Firing(ctx, now)
	firing := new(a.showFiring(pauses))
	if len(pauses) == 0 && len(firing.NotReady) == 0 {
		firing = nil
	}
	return &reply[Stats]{Stats{
		Counts: Counts(s.Counts), NextDue: stamp(s.NextDue), Overdue: o.Timers, Paused: s.Paused, Held: s.Held, OldestOverdue: stamp(o.Oldest),
		Outbox: s.Outbox, Oldest: stamp(s.Oldest), OldestDue: stamp(s.DueAt), Parked: s.Parked,
		Failing: all(failing, func(f timer.FailingDestination) FailingDestination {
			return FailingDestination{f.Destination, f.Events, stamp(f.Oldest), f.Reason}
		}),
		Waiting: waiting, Firing: firing, Unprotected: newUnprotected(a.Unprotected),
	}}, err
}

func (a *api) tenantStats(ctx context.Context, in *TenantPath) (*reply[TenantStats], error) {
	tenant, now := in.Tenant, a.now()
	s, o, err := a.statsOf(ctx, tenant, now)
	if err != nil {
		return nil, err
	}
	waiting, err := a.waitingOf(ctx, tenant)
	if err != nil {
		return nil, err
	}
	pauses, err := a.Timers.Firing(ctx, now)
	return &reply[TenantStats]{TenantStats{showTenant(tenant, s.Counts, pauses, now), o.Timers, s.Paused, s.Held, stamp(o.Oldest), waiting}}, err
}
