package admin

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/deadletter"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/timer"
)

const (
	tenantsPerPage = 50
	shownBody      = 8 << 10 // bytes of a body that are shown
)

// A pager links a page of a list to others.
type pager struct {
	First string // link to the first page; empty on that page
	Next  string // link to the next page; empty on the last one
}

// pager returns the links of a page whose next one begins after something, or of the last
// page if that is empty.
func (p *pages) pager(r *http.Request, after string) (links pager) {
	query := r.URL.Query()
	if query.Has("after") {
		query.Del("after")
		links.First = p.Prefix + r.URL.Path + "?" + query.Encode()
	}
	if after != "" {
		query.Set("after", after)
		links.Next = p.Prefix + r.URL.Path + "?" + query.Encode()
	}
	return links
}

// A tenantList is a page of tenants.
type tenantList struct {
	pager
	Rows []tenantRow
}

// A tenantRow has the counts of a tenant, and the messages that wait in the inbox, if any does.
type tenantRow struct {
	timer.TenantCounts
	Waits *Waiting
}

func (p *pages) tenants(ctx context.Context, r *http.Request) (page, error) {
	after := timer.TenantID(r.URL.Query().Get("after"))
	l := &tenantList{}
	found := page{Name: "tenants.html", Title: "Tenants", Nav: "tenants", Live: true, Body: l}
	if err := after.Validate(); err != nil && after != "" {
		return found, err
	}
	rows, next, err := p.tenantsAfter(ctx, after, tenantsPerPage)
	l.pager = p.pager(r, next)
	for i := 0; i < len(rows) && err == nil; i++ {
		row := tenantRow{TenantCounts: rows[i]}
		row.Waits, err = p.waitingOf(ctx, row.TenantID)
		l.Rows = append(l.Rows, row)
	}
	return found, err
}

// A quotaList is a page of the quotas of tenants.
type quotaList struct {
	pager
	Limited bool
	Default string
	Rows    []quotaRow
}

// A quotaRow has the quotas of a tenant, with the limits in words.
type quotaRow struct {
	TenantQuota
	Words string
}

func (p *pages) quotas(ctx context.Context, r *http.Request) (page, error) {
	l := &quotaList{}
	found := page{Name: "quotas.html", Title: "Quotas", Nav: "quotas", Live: true, Body: l}
	tenant, err := only(ctx, r.URL.Query().Get("tenant"))
	if err != nil {
		return found, err
	}
	q, err := p.quotasOf(ctx, quotasInput{TenantQuery{tenant}, tenantsPerPage, timer.TenantID(r.URL.Query().Get("after"))})
	if l.Limited = q.Limited; l.Limited {
		l.Default = config.FormatLimits(p.Quotas.Default())
	}
	l.pager = p.pager(r, q.Next)
	l.Rows = all(q.Tenants, func(t TenantQuota) quotaRow {
		return quotaRow{t, config.FormatLimits(p.Quotas.Usage(t.TenantID).Limits)}
	})
	return found, err
}

// A deadLetterList is a page of dead letters.
type deadLetterList struct {
	selection
	pager
	Reasons    []timer.Reason // that people choose from
	NameTenant bool           // the broker lists only the dead letters of one tenant
	Rows       []deadletter.Message
}

func (p *pages) deadLetters(ctx context.Context, r *http.Request) (page, error) {
	l := &deadLetterList{Reasons: reasons}
	found := page{Name: "dead_letters.html", Title: "Dead letters", Nav: "dead-letters", Body: l}
	var err error
	if l.selection, err = selected(ctx, r.URL.RawQuery); err != nil {
		return found, err
	}
	rows, next, err := p.actions.deadLetters(ctx, l.letters(), r.URL.Query().Get("after"), rowsPerPage)
	l.Rows, l.pager = rows, p.pager(r, next)
	if l.NameTenant = errors.Is(err, broker.ErrNameTenant); l.NameTenant {
		err = nil
	}
	return found, err
}

// A parkedList is a page of events that the broker refused for good.
type parkedList struct {
	selection
	pager
	Rows []timer.ParkedEvent
}

func (p *pages) parked(ctx context.Context, r *http.Request) (page, error) {
	l := &parkedList{}
	found := page{Name: "parked.html", Title: "Parked events", Nav: "parked", Body: l}
	var err error
	if l.selection, err = selected(ctx, r.URL.RawQuery); err != nil {
		return found, err
	}
	rows, next, err := l.selection.parked(ctx, p.Timers, r.URL.Query().Get("after"), rowsPerPage)
	l.Rows, l.pager = rows, p.pager(r, next)
	return found, err
}

// audit lists the changes that people made.
func (p *pages) audit(context.Context, *http.Request) (page, error) {
	return page{Name: "audit.html", Title: "Audit", Nav: "audit", Live: true, Body: p.actions.audit.recent()}, nil
}

// nodes lists the instances that share the database.
func (p *pages) nodes(ctx context.Context, _ *http.Request) (page, error) {
	nodes, err := p.actions.nodes(ctx)
	return page{Name: "nodes.html", Title: "Nodes", Nav: "nodes", Live: true, Body: nodes}, err
}

// A body is the body of a message for people.
type body struct {
	Text string // the whole, or its beginning
	Cut  bool   // Text is not the whole
}

// readable returns the body of a message for people.
func readable(text []byte) body {
	if len(text) <= shownBody {
		return body{string(text), false}
	}
	return body{strings.ToValidUTF8(string(text[:shownBody]), ""), true}
}
