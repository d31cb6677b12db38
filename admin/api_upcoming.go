package admin

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/timer"
)

const (
	maxUpcoming = 240 // intervals of an answer
	maxCauses   = 5   // tenants of an answer
)

// Upcoming counts the timers that are due in the next intervals.
type Upcoming struct {
	From      string          `json:"from" format:"date-time" doc:"When the first interval begins: now."`
	WidthMS   int64           `json:"widthMs" doc:"How long an interval is."`
	Intervals []int64         `json:"intervals" nullable:"false" doc:"Scheduled timers that are due in each interval. A count that is cap may stand for more."`
	Cap       int64           `json:"cap" doc:"Where counts stop, so that they take no longer for more."`
	Tenants   []UpcomingCause `json:"tenants" nullable:"false" doc:"Those with the most timers among the first sampled that are due before the end of the last interval, most first. None if a tenant was asked for."`
	Sampled   int             `json:"sampled" doc:"How many timers were read to find these tenants: at most the soonest 1000, overdue ones too."`
}

// An UpcomingCause is a tenant with its share of the upcoming timers.
type UpcomingCause struct {
	TenantID  timer.TenantID `json:"tenantId"`
	Sampled   int            `json:"sampled" doc:"How many of the sampled timers it has."`
	Intervals []int64        `json:"intervals" nullable:"false" doc:"Its timers that are due in each interval, up to cap."`
}

type upcomingInput struct {
	TenantQuery
	Intervals int    `query:"intervals" minimum:"1" maximum:"240" default:"60" doc:"How many intervals."`
	Width     string `query:"width" default:"1m" doc:"How long each is." example:"5m"`
}

// upcoming counts the timers that are due in the next intervals, of a tenant or of all, and finds
// the tenants that have most of them. It reads at most [timer.MaxPage] timers. For each interval it
// counts at most [timer.MaxUpcoming], once for all and once for each of [maxCauses] tenants.
func (a *api) upcoming(ctx context.Context, in *upcomingInput) (*reply[Upcoming], error) {
	width, err := config.ParseWithUnit(in.Width)
	if err != nil || width <= 0 || width > timer.MaxIntervalWidth {
		return nil, timer.Invalid(timer.ReasonBadField, "width must be a duration with a unit, such as 1m, and at most %s", config.FormatDuration(timer.MaxIntervalWidth))
	}
	from := timer.RoundUp(a.now())
	count := func(tenant timer.TenantID) ([]int64, error) {
		return a.Timers.Upcoming(ctx, tenant, from, width, in.Intervals, timer.MaxUpcoming)
	}
	u := Upcoming{From: stamp(from), WidthMS: width.Milliseconds(), Cap: timer.MaxUpcoming, Tenants: []UpcomingCause{}}
	if u.Intervals, err = count(in.Tenant); err != nil || in.Tenant != "" {
		return &reply[Upcoming]{u}, err
	}
	page, err := a.Timers.List(ctx, timer.Filter{DueBefore: from.Add(width * time.Duration(in.Intervals)), Limit: timer.MaxPage})
	if err != nil {
		return nil, err
	}
	u.Sampled = len(page.Entries)
	tenants, counts := most(page.Entries, maxCauses)
	for _, t := range tenants {
		its, err := count(t)
		if err != nil {
			return nil, err
		}
		u.Tenants = append(u.Tenants, UpcomingCause{t, counts[t], its})
	}
	return &reply[Upcoming]{u}, nil
}

// most returns the tenants that have most of some timers, the largest first, and how many
// each has.
func most(timers []timer.Entry, limit int) ([]timer.TenantID, map[timer.TenantID]int) {
	counts := make(map[timer.TenantID]int)
	for _, e := range timers {
		counts[e.TenantID]++
	}
	tenants := slices.SortedFunc(maps.Keys(counts), func(x, y timer.TenantID) int {
		return cmp.Or(counts[y]-counts[x], cmp.Compare(x, y))
	})
	return tenants[:min(len(tenants), limit)], counts
}
