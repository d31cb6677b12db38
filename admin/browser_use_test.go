package admin_test

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// focused says where the focus is: the number of the element among all that can have
// it, and whether its outline is seen.
const focused = `(() => {
  const all = [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, summary, [tabindex='0']")].filter(e => e.checkVisibility({visibilityProperty: true}) || e.matches(".skip"));
  const e = document.activeElement, s = getComputedStyle(e);
  return {At: all.indexOf(e), Of: all.length, Seen: s.outlineStyle !== "none" && parseFloat(s.outlineWidth) > 0, What: e.outerHTML.slice(0, 80)};
})()`

// keyboard goes through pages with the tab key.
func keyboard(t *testing.T, s *site) {
	tb := newTab(t, s, s.url)
	for _, path := range []string{"/", "/timer?tenant=acme&call=order-01", "/dead-letters", "/do/cancel?tenant=acme&call=order-01", "/tenants"} {
		tb.open(path)
		eval[bool](tb, `sessionStorage.setItem("timer-service-paused", "yes"), true`)
		tb.open(path)
		for i := 0; ; i++ {
			tb.do(chromedp.KeyEvent(kb.Tab))
			at := eval[struct {
				At, Of int
				Seen   bool
				What   string
			}](tb, focused)
			if at.At != i || !at.Seen {
				t.Errorf("%s: step %d of the tab key is at %d of %d, seen %v: %s", path, i, at.At, at.Of, at.Seen, at.What)
				break
			}
			if i == at.Of-1 || i == 60 {
				break
			}
		}
	}
	tb.check("keyboard")
}

// withoutScripts reads pages, searches, and cancels a timer.
func withoutScripts(t *testing.T, s *site) {
	tb := newTab(t, s, s.url)
	call(tb, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	tb.open("/")
	tb.await("Due in the next hour")
	tb.await("3 of this instance since its start: commands that were refused")
	if strings.Contains(tb.text(), "Pause refresh") {
		t.Error("a control that does nothing is shown")
	}
	tb.open("/timers?tenant=acme")
	tb.click("Next page")
	tb.await("order-59")
	tb.click("order-59")
	tb.await("by the clock of who sent it")
	tb.do(chromedp.SendKeys(chromedp.CSS("input[type=search]"), "acme/order-58"+kb.Enter))
	tb.await("acme/order-58")
	tb.click("Cancel this timer…")
	tb.await("No, go back")
	tb.click("Cancel this timer")
	tb.await("Done.")
	eventually(t, "a canceled timer", func() bool { return s.state(t, "acme", "order-58") == "Canceled" })
	tb.check("without scripts")
}

// refreshes looks at the page asking for itself again.
func refreshes(t *testing.T, s *site) {
	tb := newTab(t, s, s.url)
	tb.open("/timer?tenant=acme&call=order-02")
	foot := func() string { return eval[string](tb, `document.querySelector(".foot").innerText`) }
	first := foot()
	tb.do(chromedp.Focus(chromedp.CSS("#live .danger")))
	eventually(t, "a new page", func() bool { return foot() != first })
	if !eval[bool](tb, `document.activeElement.matches(".danger")`) {
		t.Error("the refresh takes the focus away")
	}
	tb.click("Pause refresh")
	tb.await("Go on refreshing")
	eval[bool](tb, `document.addEventListener("refresh", () => { window.asked = true }, true), true`)
	eval[bool](tb, `document.dispatchEvent(new Event("visibilitychange")), true`)
	if eval[bool](tb, `!!window.asked`) {
		t.Error("refreshed, though paused")
	}
	tb.open("/")
	tb.await("Go on refreshing") // the other page, too
	tb.click("Go on refreshing")
	tb.await("Pause refresh")
	eval[bool](tb, `Object.defineProperty(document, "hidden", {get: () => true}), document.addEventListener("refresh", () => { window.asked = true }, true), document.dispatchEvent(new Event("visibilitychange"))`)
	if eval[bool](tb, `!!window.asked`) {
		t.Error("refreshed, though the tab is hidden")
	}
	tb.check("refresh")
}

// readsOnly finds no way to change something.
func readsOnly(t *testing.T, s *site) {
	tb := newTab(t, s, s.readOnly)
	for _, path := range []string{"/", "/timer?tenant=acme&call=order-03", "/dead-letters", "/parked", "/tenants"} {
		tb.open(path)
		if n := eval[int](tb, `document.querySelectorAll("main a[href*='/do/'], main form[method=post]").length`); n > 0 {
			t.Errorf("%s: %d ways to change something", path, n)
		}
		if links := eval[[]string](tb, `[...document.querySelectorAll("a[href]")].map(a => a.getAttribute("href")).filter(h => !h.startsWith("/below/") && !h.startsWith("#"))`); len(links) > 0 {
			t.Errorf("%s: links around the prefix: %s", path, links)
		}
	}
	tb.check("read only")
	tb.open("/do/cancel?tenant=acme&call=order-03")
	tb.await("this service answers reads only")
}

// logsIn shows a token, and goes where it wanted to go, and out again.
func logsIn(t *testing.T, s *site) {
	tb := newTab(t, s, s.guarded)
	tb.do(chromedp.Navigate(s.guarded+"/tenants"), chromedp.SendKeys(chromedp.CSS("#token"), "wrong"+kb.Enter))
	tb.await("This token is wrong")
	tb.forgive("401")
	if faint := eval[[]string](tb, contrast); len(faint) > 0 {
		t.Error(faint)
	}
	tb.do(chromedp.SendKeys(chromedp.CSS("#token"), "secret"+kb.Enter))
	tb.await("Waiting timers")
	eval[bool](tb, `fetch("/guarded/logout", {method: "POST"}), true`) // as another tab does
	tb.await("Not refreshed: log in again")
	if text := tb.text(); !strings.Contains(text, "Waiting timers") || strings.Contains(text, "does not answer") {
		t.Errorf("without a session the page says:\n%s", text)
	}
	tb.forgive("401")
	tb.click("log in again")
	tb.await("Token, the value")
	tb.do(chromedp.SendKeys(chromedp.CSS("#token"), "secret"+kb.Enter))
	tb.await("Waiting timers")
	tb.do(chromedp.Click(`//button[.="Log out"]`))
	tb.await("Token, the value")
	tb.check("login")
}

// acts does each action once, but for those of [withoutScripts].
func acts(t *testing.T, s *site) {
	tb := newTab(t, s, s.url)
	do := func(path, link, button, done string) {
		t.Helper()
		tb.open(path)
		tb.click(link)
		tb.await("No, go back")
		tb.click(button)
		tb.await("Done. " + done)
		tb.check(button)
	}
	do("/timer?tenant=acme&call=order-04", "Cancel this timer…", "Cancel this timer", "The command")
	eventually(t, "a canceled timer", func() bool { return s.state(t, "acme", "order-04") == "Canceled" })
	tb.click("Go on")
	tb.await("it will not fire")
	do("/dead-letters?tenant=acme", "Replay…", "Replay this dead letter", "The original command is at the broker")
	do("/dead-letters?tenant=acme", "Discard…", "Discard this dead letter", "The dead letter is removed for good")
	tb.open("/dead-letters?tenant=acme&reason=unknown_type")
	tb.click("Replay all…")
	tb.await("dead letters of acme, reason")
	tb.click("Replay these dead letters")
	tb.await("refused again: unknown_type, ")
	tb.check("replay all")
	do("/parked", "Discard…", "Discard this event", "The event is deleted for good")
	s.broker.accepts.Store(true)
	do("/parked?reason=REFUSED", "Retry all…", "Retry these events", "1 of 1 events in the outbox again")
	tb.click("Go on")
	tb.await("There is no parked event")
	tb.open("/tenants")
	tb.click("forget… forgotten")
	tb.await("1 timer to delete: 1 waiting")
	tb.do(chromedp.SendKeys(chromedp.CSS("input[name=confirm]"), "forgotten"))
	tb.click("Delete all timers of this tenant")
	tb.await("Done. 1 timer deleted: 1 waiting")
	if state := s.state(t, "forgotten", "order-1"); state != "" {
		t.Errorf("a timer of a forgotten tenant is %s", state)
	}
	do("/", "Pause firing…", "Pause firing for all tenants", "No timer of any tenant fires until you resume")
	tb.click("Go on")
	tb.await("Firing is paused since")
	do("/dead-letters", "Resume firing…", "Resume firing for all tenants", "Timers fire again")
	do("/timers?tenant=acme", "Pause firing of acme…", "Pause firing of this tenant", "No timer of this tenant fires until you resume")
	tb.open("/audit")
	tb.await("Firing of acme is paused since")
	do("/tenants", "resume… acme", "Resume firing of this tenant", "Timers fire again")
	tb.open("/do/discard-parked?seq=12345")
	tb.click("Discard this event")
	tb.await("Not done: there is no such parked event")
	tb.forgive("404")
	tb.open("/audit")
	for _, what := range []string{"cancel timer", "acme.order-04", "replay dead letter", "discard dead letter", "retry parked events", "forget tenant", "pause firing", "127.0.0.1"} {
		tb.await(what)
	}
	tb.check("actions")
}
