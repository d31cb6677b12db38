package admin

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// rowsPerPage is how many rows a table has.
const rowsPerPage = 50

// everDue is a time before which all timers are due.
var everDue = time.Date(2201, 1, 1, 0, 0, 0, 0, time.UTC)

// A timerList is a page of timers, with the filter of the request.
type timerList struct {
	pager
	Tenant, Prefix, State, From, Before, Correlation string
	States                                           []timer.State
	Rows                                             []timer.Entry
	Waits                                            timer.TenantID // the tenant of all timers, if one of them waits
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
	l := &timerList{Prefix: strings.TrimSpace(get("prefix")), State: get("state"), From: get("from"), Before: get("before"), States: timer.States[:]}
	found := page{Name: "timers.html", Title: "Timers", Nav: "timers", Live: true, Body: l}
	tenant, err := only(ctx, strings.TrimSpace(get("tenant")))
	from, badFrom := day(l.From)
	before, badBefore := day(l.Before)
	if err := cmp.Or(err, badFrom, badBefore); err != nil {
		return found, err
	}
	l.Tenant = string(tenant)
	filter := timer.Filter{TenantID: tenant, Prefix: l.Prefix, State: timer.State(l.State), After: get("after"), DueFrom: from, DueBefore: before, Limit: rowsPerPage}
	if tenant == "" {
		filter = timer.Filter{DueBefore: everDue, After: filter.After, Limit: rowsPerPage}
	}
	list, err := p.opt.Timers.List(ctx, filter)
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
	return timeOf("time", text)
}

// search redirects to a timer, or lists the timers with a correlation id.
func (p *pages) search(ctx context.Context, r *http.Request) (page, error) {
	text := strings.TrimSpace(r.URL.Query().Get("q"))
	l := &timerList{Correlation: text}
	found := page{Name: "search.html", Title: "Search", Nav: "timers", Body: l}
	if tenant, call, ok := strings.Cut(text, "/"); ok {
		key := timer.Key{TenantID: timer.TenantID(strings.TrimSpace(tenant)), ServiceCallID: timer.ServiceCallID(strings.TrimSpace(call))}
		if key.Validate() == nil {
			return page{Location: p.timerPath(key)}, nil
		}
	}
	if text == "" {
		return found, nil
	}
	if who := accessOf(ctx).tenant; timer.TenantID(text).Validate() == nil && (who == "" || who == timer.TenantID(text)) {
		l.Tenant = text
	}
	if timer.ValidateID("correlationId", text) != nil {
		return found, nil
	}
	var err error
	l.Rows, err = p.correlated(ctx, accessOf(ctx).tenant, text)
	l.Waits = waiting(l.Rows)
	if len(l.Rows) == 1 {
		return page{Location: p.timerPath(l.Rows[0].Key)}, err
	}
	return found, err
}

// waiting returns the tenant of some timers, if one of them waits and all belong to one
// tenant.
func waiting(rows []timer.Entry) (tenant timer.TenantID) {
	waits := false
	for i, e := range rows {
		if i > 0 && e.TenantID != tenant {
			return ""
		}
		tenant, waits = e.TenantID, waits || e.State == timer.Scheduled
	}
	if !waits {
		return ""
	}
	return tenant
}

// correlated returns timers with a correlation id, of a tenant or of all if it is empty: about
// as many as one page of the database has.
func (p *pages) correlated(ctx context.Context, tenant timer.TenantID, id string) (found []timer.Entry, err error) {
	filter := timer.Filter{TenantID: tenant, CorrelationID: id, Limit: timer.MaxPage}
	err = timer.EachPage(ctx, &filter, p.opt.Timers.List, func(entries []timer.Entry) error {
		if found = append(found, entries...); len(found) >= timer.MaxPage {
			return errFull
		}
		return nil
	})
	if errors.Is(err, errFull) {
		err = nil
	}
	return found, err
}

// timerPath returns the path of a timer's page. A service call may be "..", so it is not a
// part of the path.
func (p *pages) timerPath(key timer.Key) string {
	return p.opt.Prefix + "/timer?" + url.Values{"tenant": {string(key.TenantID)}, "call": {string(key.ServiceCallID)}}.Encode()
}
