package admin

import (
	"cmp"
	"context"
	"maps"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/event-service-agent/timer-service/broker/deadletter"
	"github.com/event-service-agent/timer-service/timer"
)

// parkedReads is the most reads of the database for a page of parked events.
const parkedReads = 100

// reasons are the reasons of the service for dead letters.
var reasons = []timer.Reason{
	timer.ReasonTooLarge, timer.ReasonNotUTF8, timer.ReasonNotJSON, timer.ReasonTooDeep, timer.ReasonDuplicateKey, timer.ReasonMissingField, timer.ReasonBadField,
	timer.ReasonBadTime, timer.ReasonTenantMismatch, timer.ReasonKeyMismatch, timer.ReasonUnknownType, timer.ReasonBeyondHorizon, timer.ReasonRefused, timer.ReasonOverQuota, timer.ReasonNotHandled,
}

// A selection says which dead letters, or which parked events, a request selects. All fields
// must fit; an empty field fits any.
type selection struct {
	Tenant      timer.TenantID
	Reason      string // of a dead letter; of a parked event a part of it, in upper or lower case
	Correlation string // id
	ID          string // of one dead letter, or the number of one parked event
	Since       string // as people typed it
	From        time.Time
	Until       time.Time // what came later is not what a person has seen
}

// selected reads a selection from the query of a form. If the request may see only one
// tenant, the selection is of that tenant.
func selected(ctx context.Context, query string) (s selection, err error) {
	form, err := url.ParseQuery(query)
	if err != nil {
		return s, huma.Error400BadRequest("the form can't be read")
	}
	get := func(name string) string { return strings.TrimSpace(form.Get(name)) }
	s = selection{Reason: get("reason"), Correlation: get("correlation"), ID: get("id"), Since: get("since")}
	if s.Tenant, err = only(ctx, get("tenant")); err != nil {
		return s, err
	}
	if s.From, err = day(s.Since); err == nil {
		s.Until, err = day(get("until"))
	}
	return s, err
}

// selects refuses a change of all unless that is asked for.
func selects(s selection, everything bool) error {
	switch {
	case s == selection{} && !everything:
		return huma.Error422UnprocessableEntity("this selects nothing: give a tenant, a reason, since, a correlation id or an id, or all=true")
	case s.ID != "" && everything:
		return huma.Error422UnprocessableEntity("an id and all exclude each other: give one")
	}
	return nil
}

// Query returns the query of the form.
func (s selection) Query() string {
	v := url.Values{"tenant": {string(s.Tenant)}, "reason": {s.Reason}, "correlation": {s.Correlation}, "id": {s.ID}, "since": {s.Since}}
	maps.DeleteFunc(v, func(_ string, text []string) bool { return text[0] == "" })
	return v.Encode()
}

// String describes the selection for people.
func (s selection) String() string {
	text := "of " + cmp.Or(string(s.Tenant), allTenants)
	for _, of := range [][2]string{{"reason", s.Reason}, {"correlation id", s.Correlation}, {"id", s.ID}, {"since", stamp(s.From)}} {
		if of[1] != "" {
			text += ", " + of[0] + " " + timer.Quote(of[1])
		}
	}
	return text
}

// letters returns the filter of dead letters.
func (s selection) letters() deadletter.Filter {
	f := deadletter.Filter{Tenant: s.Tenant, Correlation: s.Correlation, Since: s.From, Until: s.Until}
	if s.Reason != "" {
		f.Reasons = []timer.Reason{timer.Reason(s.Reason)}
	}
	if s.ID != "" {
		f.IDs, f.Limit = []string{s.ID}, 1
	}
	return f
}

// fits reports whether a parked event of its tenant is selected.
func (s selection) fits(e timer.ParkedEvent) bool {
	return strings.Contains(strings.ToLower(e.Reason), strings.ToLower(s.Reason)) && (s.Correlation == "" || s.Correlation == e.CorrelationID) && !e.ParkedAt.Before(s.From) && (s.Until.IsZero() || !e.ParkedAt.After(s.Until))
}

// parked returns a page of the selected parked events, newest first, before the place where
// the page before ended, or from the newest on if that is empty. It also returns the place
// where this page ends, if there may be another one. If few of very many events are selected,
// a page may be short. A selection by a number is one event, or an error if there is none.
func (s selection) parked(ctx context.Context, timers timer.Reader, after string, limit int) (page []timer.ParkedEvent, next string, err error) {
	if s.ID != "" {
		seq, _ := strconv.ParseInt(s.ID, 10, 64) // no event has the number 0
		page, err = timers.Parked(ctx, s.Tenant, seq+1, 1)
		if err == nil && (len(page) == 0 || page[0].Seq != seq) {
			err = noParked(s.ID)
		}
		return page, "", err
	}
	before, _ := strconv.ParseInt(after, 10, 64) // 0 if it is no place
	for range parkedReads {
		rows, err := timers.Parked(ctx, s.Tenant, before, limit)
		if err != nil {
			return nil, "", err
		}
		for _, e := range rows {
			before = e.Seq
			if s.fits(e) {
				page = append(page, e)
			}
			if len(page) == limit {
				return page, strconv.FormatInt(before, 10), nil
			}
		}
		if len(rows) < limit {
			return page, "", nil
		}
	}
	return page, strconv.FormatInt(before, 10), nil
}
