package admin

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/event-service-agent/timer-service/timer"
)

// A deed is a change that people can make on a page. A page of its own asks once for
// confirmation, and a POST makes the change.
type deed struct {
	Title   string   // title of the page
	Button  string   // text of the button
	Danger  bool     // it can't be undone
	Means   string   // the consequences
	Of      string   // the field that names the target within the tenant
	Label   string   // name of that field for people
	Choices []string // values of the field that people choose from
	Amounts []string // values of the field "by" that people choose from
	Typed   bool     // people type the field on the page that asks
	Empty   string   // meaning of an empty field; empty: the field is required
	Back    string   // path of the page to go on with; default that of the tenants

	OfTenant bool     // it is about a tenant, which the request must name
	found    deedFunc // describes the target; nil: it is known
	do       deedFunc // makes the change, and describes it
}

// A target is what people want a deed to be done to, and how.
type target struct {
	Tenant timer.TenantID
	What   string // within the tenant: the value of the field Of
	By     string // the amount that people chose; empty if there are none
}

// A deedFunc does a part of a deed, and returns a text for people.
type deedFunc = func(ctx context.Context, a *actions, on target) (text string, err error)

var deeds = map[string]deed{
	"cancel":              byCall.deed(cancelMany),
	"cancel-prefix":       byPrefix.deed(cancelMany),
	"cancel-correlated":   byCorrelation.deed(cancelMany),
	"fire":                byCall.deed(fireMany),
	"fire-prefix":         byPrefix.deed(fireMany),
	"fire-correlated":     byCorrelation.deed(fireMany),
	"postpone":            byCall.deed(postponeMany),
	"postpone-prefix":     byPrefix.deed(postponeMany),
	"postpone-correlated": byCorrelation.deed(postponeMany),
	"replay": bulkDeed(countLetters, replay.apply, deed{
		Title: "Replay dead letters", Button: "Replay the selection", Back: "/dead-letters",
		Means: "The original commands go to the broker once more, and their dead letters are removed. A command that fails again becomes a new dead letter.",
	}),
	"discard": bulkDeed(countLetters, discard.apply, deed{
		Title: "Discard dead letters", Button: "Discard the selection", Danger: true, Back: "/dead-letters",
		Means: "The dead letters are removed for good. What their commands asked for will not happen.",
	}),
	"retry-parked": bulkDeed(countParked, retryParked.apply, deed{
		Title: "Retry parked events", Button: "Retry the selection", Back: "/parked",
		Means: "The events go back into the outbox and are published as if they were new. An event that the broker refuses again is parked again, with the reason.",
	}),
	"discard-parked": bulkDeed(countParked, discardParked.apply, deed{
		Title: "Discard parked events", Button: "Discard the selection", Danger: true, Back: "/parked",
		Means: "The events are deleted for good: their consumers never learn that these timers have fired, or expired.",
	}),
	"pause": {
		Title: "Pause firing", Button: "Pause firing", Danger: true,
		Of: "for", Label: "For how long", Choices: []string{"15m", "1h", "4h", "24h"}, Empty: "until it is resumed",
		Means: "None of these timers fires, on all nodes, until firing is resumed or the pause ends. Commands are taken, and nothing is lost: what becomes due meanwhile fires then, late.",
		do: func(ctx context.Context, a *actions, on target) (string, error) {
			until, err := eitherTime(a.now(), "until", "", "for", on.What)
			if err != nil {
				return "", err
			}
			return "No timer of " + cmp.Or(string(on.Tenant), allTenants) + " fires until " + cmp.Or(stamp(until), "firing is resumed") + ".", a.pause(ctx, on.Tenant, until)
		},
	},
	"resume": {
		Title: "Resume firing", Button: "Resume firing",
		Means: "Firing goes on, on all nodes, first of the timers that became due meanwhile. A tenant that is paused by name is resumed by name.",
		do: func(ctx context.Context, a *actions, on target) (string, error) {
			return "Firing is resumed.", a.resume(ctx, on.Tenant)
		},
	},
	"refire": {
		Title: "Publish events again", Button: "Publish them again",
		Of: "since", Label: "Of timers that fired or expired in the last", Choices: []string{"10m", "30m", "1h", "4h", "24h"},
		Means: "For consumers that lost events, or a broker that lost stored messages. Each event keeps its id: a consumer that remembers it drops it. At most 2,000 a second are published. The verb refire takes any time, and a prefix.",
		do: func(ctx context.Context, a *actions, on target) (string, error) {
			length, err := time.ParseDuration(on.What)
			if err != nil {
				return "", huma.Error400BadRequest("choose how far back the events are wanted")
			}
			did, err := a.refire(ctx, timer.Refire{TenantID: on.Tenant, Since: a.now().Add(-length)})
			line := count(int64(did.Events), "event") + " published again"
			if did.Next != "" {
				return line + ", not all: the verb refire goes on until the end.", errMore
			}
			return line + ". Timers that fired or expired before " + did.CompleteFrom + " may be deleted.", err
		},
	},
	"forget": {
		Title: "Forget a tenant", Button: "Delete all timers of this tenant", Danger: true, OfTenant: true, Back: "/tenants",
		Of: "confirm", Label: "Type the name of the tenant", Typed: true,
		Means: "All its timers are deleted for good, also if they wait, and its parked events. Nothing of them fires. Its dead letters stay. Commands that come later schedule new timers.",
		found: func(ctx context.Context, a *actions, on target) (string, error) {
			s, err := a.Timers.Stats(ctx, on.Tenant)
			return count(s.Total(), "timer") + " to delete: " + tally(s.Counts) + ".", cmp.Or(a.allow(ctx, ""), err)
		},
		do: func(ctx context.Context, a *actions, on target) (string, error) {
			if on.What != string(on.Tenant) {
				return "", huma.Error422UnprocessableEntity("the name that was typed is not that of the tenant: nothing was deleted")
			}
			n, err := a.forget(ctx, on.Tenant)
			switch {
			case errors.Is(err, errMore):
				return count(n.Total(), "timer") + " deleted so far, not all: ask again.", err
			case err != nil && n.Total() > 0:
				return "", huma.Error503ServiceUnavailable(count(n.Total(), "timer") + " deleted so far, then the database did not answer: ask again. The audit log has the error.")
			}
			return count(n.Total(), "timer") + " deleted: " + tally(n) + ".", err
		},
	},
}

// bulkDeed returns a deed that changes all of a selection.
func bulkDeed(found, do func(context.Context, *actions, selection) (string, error), d deed) deed {
	on := func(work func(context.Context, *actions, selection) (string, error)) deedFunc {
		return func(ctx context.Context, a *actions, on target) (string, error) {
			s, err := selected(ctx, on.What)
			if err != nil {
				return "", err
			}
			text, err := work(ctx, a, s)
			if errors.Is(err, errMore) {
				text += "\nNot all: ask again."
			}
			return text, err
		}
	}
	d.Of, d.found, d.do = "filter", on(found), on(do)
	return d
}

// tally says how many timers are in each state.
func tally(n timer.Counts) string {
	return num(n.Scheduled) + " waiting, " + num(n.Reached) + " fired, " + num(n.Expired) + " expired, " + num(n.Canceled) + " canceled"
}

// A field of a form selects timers.
type field struct {
	name, label, back string
	of                func(text string) timer.Selection
}

var (
	byCall = field{"call", "Service call", "/timer", func(call string) timer.Selection {
		return timer.Selection{Calls: []timer.ServiceCallID{timer.ServiceCallID(call)}}
	}}
	byPrefix      = field{"prefix", "Service calls that begin with", "/timers", func(prefix string) timer.Selection { return timer.Selection{Prefix: prefix} }}
	byCorrelation = field{"correlation", "Correlation id", "/timers", func(id string) timer.Selection { return timer.Selection{CorrelationID: id} }}
)

// A manyDeed changes the timers of a selection.
type manyDeed struct {
	deed
	verb string
	// move returns that of a request, at a time; the zero Move: they are canceled.
	move func(now time.Time, by string) (timer.Move, error)
}

var (
	cancelMany = manyDeed{deed{
		Title: "Cancel timers", Button: "Cancel them", Danger: true,
		Means: "A command cancels all that wait when it is handled: they do not fire. Newer commands can schedule them again.",
	}, "cancel", func(time.Time, string) (timer.Move, error) { return timer.Move{}, nil }}
	fireMany = manyDeed{deed{
		Title: "Fire now", Button: "Fire now", Danger: true,
		Means: "A command makes all timers due that wait when it is handled. Their events go out now, and not again at the planned time.",
	}, "fire now", func(now time.Time, _ string) (timer.Move, error) { return timer.Move{To: now}, nil }}
	postponeMany = manyDeed{deed{
		Title: "Postpone", Button: "Postpone", Amounts: []string{"15m", "1h", "4h", "24h", "7d"},
		Means: "A command for each timer makes it due as much later than it is now. Data and expiry stay: one that would be due after it expires is not moved. The verb reschedule takes any time.",
	}, "postpone", func(_ time.Time, by string) (m timer.Move, err error) {
		m.By, err = moveBy(by)
		return m, err
	}}
)

// deed returns the deed that changes the timers which a field of the form selects.
func (f field) deed(many manyDeed) deed {
	do := func(ctx context.Context, a *actions, on target, dry bool) (ManyRescheduled, error) {
		move, err := many.move(a.now(), on.By)
		if err != nil {
			return ManyRescheduled{}, err
		}
		return a.many(ctx, timer.SelectionCommand{CancelTimers: timer.CancelTimers{TenantID: on.Tenant, Of: f.of(on.What)}, Move: move}, "", dry)
	}
	d := many.deed
	d.Of, d.Label, d.OfTenant, d.Back = f.name, f.label, true, f.back
	d.do = func(ctx context.Context, a *actions, on target) (string, error) {
		if found, err := do(ctx, a, on, true); err != nil || f.name == byCall.name && found.Timers == found.Refused {
			return "", cmp.Or[error](err, huma.Error404NotFound("no such timer waits, or it would be due after it expires"))
		}
		sent, err := do(ctx, a, on, false)
		did := "The command " + sent.ID + " to " + many.verb + " " + count(int64(sent.Timers), "timer") + " was sent."
		if on.By != "" {
			did = "Commands to " + many.verb + " " + count(int64(sent.Timers-sent.Refused), "timer") + " were sent."
		}
		if sent.Refused > 0 {
			did += " " + sent.refused()
		}
		if sent.Next != "" {
			return did + " Not all: the API goes on with after=" + sent.Next + ".", errMore
		}
		return did, err
	}
	d.found = func(ctx context.Context, a *actions, on target) (string, error) {
		on.By = append(d.Amounts, "")[0]
		found, err := do(ctx, a, on, true)
		line := count(int64(found.Timers), "timer") + " to " + many.verb
		for i, t := range found.First {
			line += []string{": ", ", "}[min(i, 1)] + string(t.ServiceCallID)
		}
		if found.Timers > len(found.First) {
			line += " and others"
		}
		if found.Refused > 0 && d.Amounts == nil {
			line += ". " + found.refused()
		}
		return line + ".", err
	}
	return d
}

// refused says how many timers stay as they are.
func (m *ManyRescheduled) refused() string {
	return count(int64(m.Refused), "timer") + " would be due after the expiry, and stays as it is"
}

// A confirmation is a deed with its request.
type confirmation struct {
	deed
	target
	Name   string
	Return string // where to go afterwards
	Found  string // description of the target, if it is looked up
	Failed string
}

// act adds the pages that ask for deeds, and the handlers that do them.
func (p *pages) act(on *routes) {
	p.get(on, "/do/{deed}", filtered, func(ctx context.Context, r *http.Request) (page, error) {
		return p.confirm(ctx, r, r.URL.Query())
	})
	on.handle("POST /do/{deed}", filtered, func(w http.ResponseWriter, r *http.Request) {
		found := page{}
		err := readForm(r)
		if err == nil {
			found, err = p.confirm(r.Context(), r, r.PostForm)
		}
		if err != nil {
			p.write(w, r, p.failed(r.Context(), found, err))
			return
		}
		a := found.Body.(*confirmation) //nolint:forcetypeassert // confirm has made it
		did, err := a.do(r.Context(), p.actions, a.target)
		if inPart := errors.Is(err, errMore); err == nil || inPart { // to load the page again repeats nothing
			keepResult(w, p.Prefix, did, inPart)
			http.Redirect(w, r, a.Return, http.StatusSeeOther)
			return
		}
		problem := p.answer(r.Context(), a.Name, err)
		found.Code, a.Failed = problem.GetStatus(), problem.Error()
		p.write(w, r, found)
	})
}

// resultCookie has the result of an action for the page that the browser goes on with: whichever
// instance answers that can show it, and no link can name a result.
const resultCookie = "timer_result"

// maxResult is the longest text of a result; browsers keep cookies up to 4 KiB.
const maxResult = 2500

// keepResult has the next page show a result.
func keepResult(w http.ResponseWriter, prefix, did string, inPart bool) {
	if len(did) > maxResult {
		did = strings.ToValidUTF8(did[:maxResult], "") + "… The audit log has more."
	}
	text := map[bool]string{true: "part ", false: "done "}[inPart] + did
	http.SetCookie(w, &http.Cookie{
		Name: resultCookie, Value: base64.RawURLEncoding.EncodeToString([]byte(text)), Path: prefix + "/", MaxAge: 60, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
}

// takeResult returns the result that a page shows, once: a refresh of a page shows none.
func takeResult(w http.ResponseWriter, r *http.Request, prefix string) (did string, inPart bool) {
	cookie, err := r.Cookie(resultCookie)
	if err != nil || r.Header.Get("HX-Request") != "" {
		return "", false
	}
	http.SetCookie(w, &http.Cookie{Name: resultCookie, Path: prefix + "/", MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteStrictMode})
	text, _ := base64.RawURLEncoding.DecodeString(cookie.Value)
	how, did, _ := strings.Cut(string(text), " ")
	return did, how == "part"
}

// readForm reads the form of a POST.
func readForm(r *http.Request) error {
	err := r.ParseForm()
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return huma.NewError(http.StatusRequestEntityTooLarge, "the form is too large")
	case err != nil:
		return huma.Error400BadRequest("this is no form that can be read")
	}
	return nil
}

// confirm reads which deed is meant.
func (p *pages) confirm(ctx context.Context, r *http.Request, form url.Values) (page, error) {
	name := r.PathValue("deed")
	d, ok := deeds[name]
	found := page{Name: "do.html", Title: d.Title}
	switch {
	case !ok:
		return found, huma.Error404NotFound("there is no such action")
	case accessOf(ctx).mayChange() != nil:
		return found, accessOf(ctx).mayChange()
	case d.OfTenant && form.Get("tenant") == "":
		return found, huma.Error400BadRequest("the tenant is missing")
	}
	back, many := form, false
	if d.Of == "filter" {
		back, _ = url.ParseQuery(form.Get(d.Of)) // selected reports a mistake
		many = back.Get("id") == ""
		back.Del("id")
		back.Del("until")
	}
	a := &confirmation{deed: d, target: target{timer.TenantID(form.Get("tenant")), form.Get(d.Of), form.Get("by")}, Name: name}
	a.Return = p.Prefix + cmp.Or(d.Back, "/tenants") + "?" + back.Encode()
	found.Body = a
	_, err := only(ctx, form.Get("tenant"))
	if r.Method != http.MethodGet {
		return found, err
	}
	if many { // what comes while the person decides is not counted here, and stays
		a.What += "&until=" + url.QueryEscape(stamp(p.now()))
	}
	if err == nil && d.found != nil {
		a.Found, err = d.found(ctx, p.actions, a.target)
	}
	return found, err
}
