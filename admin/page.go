package admin

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"html/template"
	"net/http"
	"path"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/event-service-agent/timer-service/timer"
)

// web holds the files that browsers load: templates, one style sheet, our script, and htmx.
//
//go:embed web
var web embed.FS

// firingTimeout is how long a page waits for the pauses.
const firingTimeout = time.Second

// A pages shows the service to people, in a browser. Each page is rendered here, works
// without JavaScript, and is refreshed by htmx.
type pages struct {
	*actions
	templates map[string]*template.Template
}

// A page is the result of a handler, to be shown by a template.
type page struct {
	Name     string // of the template
	Title    string
	Nav      string // the current link of the navigation
	Live     bool   // it is refreshed every few seconds
	Code     int    // of the answer; default 200
	Location string // where to redirect to, if it is not empty
	Body     any    // data of the template
}

// A view is a page with the data that all pages show.
type view struct {
	page
	Prefix    string
	Self      string // path of the page itself
	Search    string // text of the search
	ReadOnly  bool   // nothing can be changed
	Commands  bool   // commands can be sent, and dead letters changed, if there are any
	Operates  bool   // the service can be changed
	One       bool   // the request may see one tenant only
	Session   bool   // the request can log out
	Now       time.Time
	Test      bool // Now is the time of a test
	Health    Health
	Firing    timer.Pauses     // of all and of tenants, as far as the request may see them
	Throttled []timer.TenantID // over a quota, as far as the request may see them
	Links     []link
	Did       string // the result of the action that led here; empty if none did
	InPart    bool   // it was not done to the end
	Instance  string // the process whose counts are shown, where they are not those of all
}

// Paused reports whether firing of this tenant itself is paused.
func (v view) Paused(tenant string) bool { return v.Firing[timer.TenantID(tenant)].Paused() }

// A link is a link of the navigation.
type link struct {
	Nav, Path, Text string
	All             bool   // only for requests that may see all tenants
	Count           string // of items that wait for a person; empty if there are none
	Means           string // meaning of the count
}

var links = []link{
	{Nav: "overview", Path: "/", Text: "Overview", All: true},
	{Nav: "timers", Path: "/timers", Text: "Timers"},
	{Nav: "tenants", Path: "/tenants", Text: "Tenants"},
	{Nav: "quotas", Path: "/quotas", Text: "Quotas"},
	{Nav: "dead-letters", Path: "/dead-letters", Text: "Dead letters"},
	{Nav: "parked", Path: "/parked", Text: "Parked events"},
	{Nav: "nodes", Path: "/nodes", Text: "Nodes", All: true},
	{Nav: "audit", Path: "/audit", Text: "Audit", All: true},
	{Nav: "docs", Path: "/docs/", Text: "API"},
}

func newPages(actions *actions) *pages {
	p := &pages{actions: actions, templates: make(map[string]*template.Template)}
	layout := template.Must(template.New("layout.html").Funcs(words).ParseFS(web, "web/layout.html"))
	names, err := web.ReadDir("web/page")
	if err != nil {
		panic(err) // it is embedded
	}
	for _, f := range names {
		p.templates[f.Name()] = template.Must(template.Must(layout.Clone()).ParseFS(web, path.Join("web/page", f.Name())))
	}
	return p
}

// serve adds the pages and the files that they load.
func (p *pages) serve(on *routes) {
	p.get(on, "/{$}", filtered, p.overview)
	p.get(on, "/timers", filtered, p.timers)
	p.get(on, "/timer", filtered, p.timer)
	p.get(on, "/search", filtered, p.search)
	p.get(on, "/tenants", filtered, p.tenants)
	p.get(on, "/quotas", filtered, p.quotas)
	p.get(on, "/dead-letters", filtered, p.deadLetters)
	p.get(on, "/parked", filtered, p.parked)
	p.get(on, "/nodes", adminToken, p.nodes)
	p.get(on, "/audit", adminToken, p.audit)
	p.act(on)
	on.page = func(w http.ResponseWriter, r *http.Request, err huma.StatusError) {
		p.write(w, r, p.failed(r.Context(), page{}, err))
	}
	for _, file := range []string{"style.css", "page.js", "docs.js", "htmx.min.js", "icon.svg"} {
		on.handle("GET /web/"+file, public, func(w http.ResponseWriter, r *http.Request) {
			http.ServeFileFS(w, r, web, "web/"+file)
		})
	}
}

// get adds a page whose handler has [readTimeout], or the timeout in [pageTimeouts].
func (p *pages) get(on *routes, path string, rule rule, find func(context.Context, *http.Request) (page, error)) {
	on.handle("GET "+path, rule, func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), max(readTimeout, pageTimeouts[path]))
		defer cancel()
		found, err := find(ctx, r)
		switch {
		case err != nil:
			found = p.failed(ctx, found, err)
		case found.Location != "":
			http.Redirect(w, r, found.Location, http.StatusSeeOther)
			return
		}
		p.write(w, r, found)
	})
}

// A trouble says why a page can't be shown.
type trouble struct{ What, Advice string }

// failed returns a page about an error.
func (p *pages) failed(ctx context.Context, asked page, err error) page {
	problem := p.answer(ctx, asked.Title, err)
	t := trouble{What: problem.Error()}
	switch {
	case errors.Is(err, timer.ErrNotFound):
		t.Advice = "It was never stored, or it was deleted after its retention. Compare tenant and service call: both are case-sensitive."
	case problem.GetStatus() == http.StatusServiceUnavailable:
		t.Advice = "The overview says what does not work, and what to do. The log has the error."
	}
	return page{Name: "trouble.html", Title: cmp.Or(asked.Title, "Not shown"), Nav: asked.Nav, Code: problem.GetStatus(), Body: t}
}

// count adds to the links of the navigation how many things wait for a person, as far as that is
// known: how many dead letters there are at the broker is not, without reading them all.
func (p *pages) count(ctx context.Context, shown []link) {
	stats, _ := p.Timers.Stats(ctx, "") // the health shows if the database does not answer
	waits, _ := p.waitingOf(ctx, "")
	held, refused := int64(0), p.History.refused()
	if waits != nil {
		held = waits.OverQuota + waits.Failed
	}
	for i := range shown {
		switch l := &shown[i]; {
		case l.Nav == "parked" && stats.Parked > 0:
			l.Count, l.Means = num(stats.Parked), "events that the broker refused"
		case l.Nav == "dead-letters" && refused > 0:
			l.Count, l.Means = "+"+num(refused), "commands that "+instance()+" has refused since its start"
		case l.Nav == "tenants" && held > 0:
			l.Count, l.Means = num(held)+" held", "commands that wait in the inbox"
		}
	}
}

func (p *pages) write(w http.ResponseWriter, r *http.Request, found page) {
	writes := accessOf(r.Context()).mayChange() == nil
	commands, operates := writes && (p.Broker != nil || p.Apply != nil), writes && p.Service != nil
	one, now := accessOf(r.Context()).tenant, p.now()
	ctx, cancel := context.WithTimeout(r.Context(), firingTimeout)
	defer cancel()
	firing, _ := p.Timers.Firing(ctx, now) // the health shows if the database does not answer
	shown := slices.Clone(links)
	if one == "" {
		p.count(ctx, shown)
	}
	throttled := p.Quotas.Throttled()
	if one != "" {
		firing = timer.Pauses{"": firing.Of(one, now)}
		throttled = slices.DeleteFunc(throttled, func(t timer.TenantID) bool { return t != one })
	}
	v := view{
		page: found, Prefix: p.Prefix, Self: p.Prefix + r.URL.RequestURI(), Search: r.URL.Query().Get("q"),
		ReadOnly: !commands && !operates, Commands: commands, Operates: operates,
		One: one != "", Session: p.Token != "", Now: now, Test: p.Clock != nil, Health: p.Monitor.Health(), Firing: firing, Throttled: throttled, Links: shown,
		Instance: instance(),
	}
	v.Did, v.InPart = takeResult(w, r, p.Prefix)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if found.Code != 0 {
		w.WriteHeader(found.Code)
	}
	if err := p.templates[found.Name].Execute(w, v); err != nil {
		p.log.DebugContext(r.Context(), "a page was not written", "page", found.Title, "error", err)
	}
}
