package admin

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/event-service-agent/timer-service/broker/deadletter"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

const (
	rowsPerPage   = 50              // rows of a table
	searchTimeout = 2 * time.Second // to find dead letters: a broker may have many
)

// everDue is a time before which all timers are due.
var everDue = time.Date(2201, 1, 1, 0, 0, 0, 0, time.UTC)

// A timerList is a page of timers, with the filter of the request.
type timerList struct {
	pager
	Tenant, Prefix, State, From, Before, Correlation string
	States                                           []timer.State
	Rows                                             []timer.Entry
	Letters                                          []deadletter.Message // of a search
	Unread                                           bool                 // whether there are dead letters is not known
}

// only returns the tenant that a request is about: the tenant that it names, or the only
// tenant that it may see.
func only(ctx context.Context, asked string) (timer.TenantID, error) {
	tenant := timer.TenantID(asked)
	if tenant == "" {
		return accessOf(ctx).tenant, nil
	}
	if err := tenant.Validate(); err != nil && tenant != timer.NoTenant {
		return "", err
	}
	if may := accessOf(ctx).tenant; may != "" && may != tenant {
		return "", errOtherTenant
	}
	return tenant, nil
}

// timers lists the timers of a tenant, or the timers of all tenants that are due next.
func (p *pages) timers(ctx context.Context, r *http.Request) (page, error) {
	get := r.URL.Query().Get
	l := &timerList{Prefix: strings.TrimSpace(get("prefix")), State: get("state"), From: get("from"), Before: get("before"), Correlation: strings.TrimSpace(get("correlation")), States: timer.States[:]}
	found := page{Name: "timers.html", Title: "Timers", Nav: "timers", Live: true, Body: l}
	tenant, err := only(ctx, strings.TrimSpace(get("tenant")))
	from, badFrom := day(l.From)
	before, badBefore := day(l.Before)
	if err := cmp.Or(err, badFrom, badBefore); err != nil {
		return found, err
	}
	l.Tenant = string(tenant)
	filter := timer.Filter{TenantID: tenant, Prefix: l.Prefix, State: timer.State(l.State), CorrelationID: l.Correlation, After: get("after"), DueFrom: from, DueBefore: before, Limit: rowsPerPage}
	if tenant == "" {
		filter = timer.Filter{DueBefore: everDue, After: filter.After, Limit: rowsPerPage}
	}
	list, err := p.Timers.List(ctx, filter)
	if err != nil {
		return found, err
	}
	l.Rows, l.pager = list.Entries, p.pager(r, list.Next)
	return found, nil
}

// day reads a time of a form, which is UTC; zero if it is empty.
func day(text string) (time.Time, error) {
	text = strings.TrimSpace(text)
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	if text == "" {
		return time.Time{}, nil
	}
	return envelope.ParseTime(text)
}

// search redirects to a timer, or lists the timers with a correlation id. A service call may
// be "..", so the path of a timer's page has it in the query.
func (p *pages) search(ctx context.Context, r *http.Request) (page, error) {
	text := strings.TrimSpace(r.URL.Query().Get("q"))
	l := &timerList{Correlation: text}
	found := page{Name: "search.html", Title: "Search", Nav: "timers", Body: l}
	tenant, call, _ := strings.Cut(text, "/")
	key := timer.Key{TenantID: timer.TenantID(strings.TrimSpace(tenant)), ServiceCallID: timer.ServiceCallID(strings.TrimSpace(call))}
	if key.Validate() == nil { // otherwise it is a correlation id, which may have slashes
		at := url.Values{"tenant": {string(key.TenantID)}, "call": {string(key.ServiceCallID)}}
		return page{Location: p.Prefix + "/timer?" + at.Encode()}, nil
	}
	who := accessOf(ctx).tenant
	if timer.TenantID(text).Validate() == nil && (who == "" || who == timer.TenantID(text)) {
		l.Tenant = text
	}
	if timer.ValidateID("correlationId", text) != nil {
		return found, nil
	}
	list, err := p.Timers.List(ctx, timer.Filter{TenantID: who, CorrelationID: text, Limit: timer.MaxPage})
	l.Rows = list.Entries
	if err != nil || p.Broker == nil {
		return found, err
	}
	reading, cancel := context.WithTimeout(ctx, searchTimeout)
	defer cancel()
	l.Letters, _, err = p.actions.deadLetters(reading, selection{Tenant: who, Correlation: text}.letters(), "", rowsPerPage)
	l.Unread = err != nil
	return found, nil
}
