package admin

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/deadletter"
	"github.com/event-service-agent/timer-service/timer"
)

const (
	tenantsPerPage = 50
	shownBody      = 8 << 10 // bytes of a body that are shown
)

// errBadAfter refuses the address of a page that no earlier page has linked.
var errBadAfter = huma.Error400BadRequest("after names no page: begin again with the first")

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
		links.First = p.opt.Prefix + r.URL.Path + "?" + query.Encode()
	}
	if after != "" {
		query.Set("after", after)
		links.Next = p.opt.Prefix + r.URL.Path + "?" + query.Encode()
	}
	return links
}

// A tenantList is a page of tenants.
type tenantList struct {
	pager
	Rows []timer.TenantCounts
}

func (p *pages) tenants(ctx context.Context, r *http.Request) (page, error) {
	after := timer.TenantID(r.URL.Query().Get("after"))
	l := &tenantList{}
	found := page{Name: "tenants.html", Title: "Tenants", Nav: "tenants", Live: true, Body: l}
	if err := optional(string(after), after.Validate()); err != nil {
		return found, err
	}
	if one := accessOf(ctx).tenant; one != "" {
		stats, err := p.opt.Timers.Stats(ctx, one)
		l.Rows = []timer.TenantCounts{{TenantID: one, Counts: stats.Counts}}
		return found, err
	}
	rows, err := p.opt.Timers.Tenants(ctx, after, tenantsPerPage)
	next := ""
	if len(rows) == tenantsPerPage {
		next = string(rows[len(rows)-1].TenantID)
	}
	l.Rows, l.pager = rows, p.pager(r, next)
	return found, err
}

// A deadLetterList is a page of dead letters.
type deadLetterList struct {
	selection
	pager
	Reasons    []timer.Reason // that people choose from
	NameTenant bool           // the broker lists only the dead letters of one tenant
	Rows       []deadLetter
}

// A deadLetter is a dead letter for people.
type deadLetter struct {
	deadletter.Message
	Shown string // the body, or its beginning
	Cut   bool   // Shown is not the whole body
	Spent bool   // it can't be replayed again
}

// Query returns the query of a form that selects only this dead letter.
func (d deadLetter) Query() string { return selection{Tenant: d.Tenant, ID: d.ID}.Query() }

func (p *pages) deadLetters(ctx context.Context, r *http.Request) (page, error) {
	l := &deadLetterList{Reasons: reasons}
	found := page{Name: "dead_letters.html", Title: "Dead letters", Nav: "dead-letters", Body: l}
	var err error
	if l.selection, err = selected(ctx, r.URL.RawQuery); err != nil {
		return found, err
	}
	rows, next, err := p.actions.deadLetters(ctx, l.letters(), r.URL.Query().Get("after"), rowsPerPage)
	l.pager = p.pager(r, next)
	for _, m := range rows {
		text, cut := readable(m.Body)
		l.Rows = append(l.Rows, deadLetter{m, text, cut, m.Replays >= deadletter.MaxReplays || m.Truncated})
	}
	if l.NameTenant = errors.Is(err, broker.ErrNameTenant); l.NameTenant {
		err = nil
	}
	return found, err
}

// A parkedList is a page of events that the broker refused for good.
type parkedList struct {
	selection
	pager
	Rows []parkedRow
}

type parkedRow struct {
	timer.ParkedEvent
	Shown string
	Cut   bool
}

// Query returns the query of a form that selects only this event.
func (e parkedRow) Query() string {
	return selection{Tenant: e.TenantID, ID: strconv.FormatInt(e.Seq, 10)}.Query()
}

func (p *pages) parked(ctx context.Context, r *http.Request) (page, error) {
	after, bad := strconv.ParseInt(cmp.Or(r.URL.Query().Get("after"), "0"), 10, 64)
	l := &parkedList{}
	found := page{Name: "parked.html", Title: "Parked events", Nav: "parked", Body: l}
	if bad != nil || after < 0 {
		return found, errBadAfter
	}
	var err error
	if l.selection, err = selected(ctx, r.URL.RawQuery); err != nil {
		return found, err
	}
	rows, next, err := l.selection.parked(ctx, p.opt.Timers, after, rowsPerPage)
	for _, e := range rows {
		text, cut := readable(e.Body)
		l.Rows = append(l.Rows, parkedRow{e, text, cut})
	}
	place := ""
	if next > 0 {
		place = strconv.FormatInt(next, 10)
	}
	l.pager = p.pager(r, place)
	return found, err
}

// audit lists the changes that people made.
func (p *pages) audit(context.Context, *http.Request) (page, error) {
	return page{Name: "audit.html", Title: "Audit", Nav: "audit", Live: true, Body: p.actions.audit.recent()}, nil
}

// nodes lists the instances that share the database.
func (p *pages) nodes(ctx context.Context, _ *http.Request) (page, error) {
	found := page{Name: "nodes.html", Title: "Nodes", Nav: "nodes", Live: true}
	if p.opt.Service == nil {
		return found, errNoService
	}
	nodes, err := p.opt.Service.Nodes(ctx)
	found.Body = nodes
	return found, err
}

// readable returns a body as text, and whether it was cut.
func readable(body []byte) (text string, cut bool) {
	if len(body) > shownBody {
		body, cut = body[:shownBody], true
		for i := 1; i < utf8.UTFMax && !utf8.Valid(body); i++ {
			body = body[:shownBody-i]
		}
	}
	return string(body), cut
}
