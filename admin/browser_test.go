package admin_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// chromium starts the one browser of the tests, or skips.
func chromium(t *testing.T) context.Context {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	switch {
	case program != "":
	case os.Getenv("TIMER_TEST_REQUIRE") != "":
		t.Fatal("there is no Chromium: install the package chromium")
	default:
		t.Skip("SKIPPED: install Chromium to test the pages in a browser")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.WSURLReadTimeout(time.Minute))
	allocator, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	browser, end := chromedp.NewContext(allocator)
	must(t, chromedp.Do(browser, chromedp.Navigate("about:blank")))
	t.Cleanup(func() {
		_ = chromedp.Cancel(browser)
		end()
		cancel()
	})
	return browser
}

// A tab of the browser. What goes wrong in it fails the test.
type tab struct {
	t    *testing.T
	ctx  context.Context
	home string

	mu       sync.Mutex
	problems []string
}

// newTab opens one. It reports errors that a console would show in red, and requests that
// leave the host.
func newTab(browser context.Context, t *testing.T, home string, steps ...chromedp.Action[chromedp.Void]) *tab {
	t.Helper()
	tb := &tab{t: t, home: home}
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	tb.ctx = ctx
	u, err := url.Parse(home)
	must(t, err)
	err = chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			tb.problem("exception: %v", e.ExceptionDetails)
		case *runtime.EventConsoleAPICalled:
			if e.Type == "error" || e.Type == "warning" {
				tb.problem("console: %v", e.Args)
			}
		case *log.EventEntryAdded:
			if e.Entry.Level == "error" || e.Entry.Level == "warning" {
				tb.problem("log: %s %s", e.Entry.Text, e.Entry.URL)
			}
		case *network.EventRequestWillBeSent:
			if to, err := url.Parse(e.Request.URL); err != nil || to.Host != u.Host && to.Scheme != "data" { // the browser's own icons
				tb.problem("a request to %s", e.Request.URL)
			}
		case *page.EventJavascriptDialogOpening:
			tb.problem("a dialog: %s", e.Message)
		}
	})
	must(t, err)
	call(tb, log.Enable, cdp.Empty{})
	call(tb, network.Enable, network.EnableParams{})
	tb.do(steps...)
	return tb
}

func (tb *tab) problem(format string, args ...any) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.problems = append(tb.problems, fmt.Sprintf(format, args...))
}

// check fails if something went wrong so far.
func (tb *tab) check(where string) {
	tb.t.Helper()
	tb.mu.Lock()
	defer tb.mu.Unlock()
	for _, p := range tb.problems {
		tb.t.Errorf("%s: %s", where, p)
	}
	tb.problems = nil
}

func (tb *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	tb.t.Helper()
	ctx, cancel := context.WithTimeout(tb.ctx, time.Minute)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		tb.t.Fatal(err)
	}
}

// call runs a command of the protocol.
func call[P, R any](tb *tab, command cdp.Command[P, R], params P) R {
	tb.t.Helper()
	result, err := chromedp.Call(tb.ctx, command, params)
	if err != nil {
		tb.t.Fatal(err)
	}
	return result
}

// eval returns the value of an expression.
func eval[T any](tb *tab, expression string) T {
	tb.t.Helper()
	value, err := chromedp.Run(tb.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		tb.t.Fatalf("%v of %s", err, expression)
	}
	return value
}

// open goes to a path of the site.
func (tb *tab) open(path string) {
	tb.t.Helper()
	tb.do(chromedp.Navigate(tb.home+path), chromedp.WaitReady(chromedp.CSS("#main")))
}

// text returns the text of the page.
func (tb *tab) text() string {
	tb.t.Helper()
	return eval[string](tb, `document.body ? document.body.innerText : ""`)
}

// await waits until the page says something.
func (tb *tab) await(what string) {
	tb.t.Helper()
	eventually(tb.t, what, func() bool {
		text, err := chromedp.Run(tb.ctx, chromedp.Evaluate[string](`document.body ? document.body.innerText : ""`))
		return err == nil && strings.Contains(text, what) // an error: the page is about to change
	})
}

// click follows the link, or presses the button, with a text. It looks for it again if
// a refresh of the page has replaced it meanwhile.
func (tb *tab) click(text string) {
	tb.t.Helper()
	path := fmt.Sprintf(`//main//*[self::a or self::button][starts-with(normalize-space(.), %q)]`, text)
	ctx, cancel := context.WithTimeout(tb.ctx, time.Minute)
	defer cancel()
	for {
		err := chromedp.Do(ctx, chromedp.Click(path))
		if err == nil {
			return
		}
		if !strings.Contains(err.Error(), "Could not find node") {
			tb.t.Fatalf("click %q: %v in\n%s", text, err, tb.text())
		}
	}
}

// TestPagesInABrowser has one Chromium open all pages in many ways.
func TestPagesInABrowser(t *testing.T) {
	t.Parallel()
	browser := chromium(t)
	opt := site(t)
	url := serve(t, opt)
	opt.Prefix, opt.Token = "/guarded", "secret"
	guarded := serve(t, opt)
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{390, 1440} {
			t.Run(fmt.Sprint(scheme, width), func(t *testing.T) {
				t.Parallel()
				appears(t, newTab(browser, t, url, chromedp.EmulateViewport(width, 900)), scheme)
			})
		}
	}
	t.Run("refresh", func(t *testing.T) {
		t.Parallel()
		refreshes(t, newTab(browser, t, url))
	})
	t.Run("docs", func(t *testing.T) {
		t.Parallel()
		tb := newTab(browser, t, url)
		tb.do(chromedp.Navigate(url + "/docs"))
		tb.await("A timer, with its data, and where its event is")
		tb.check("docs")
	})
	t.Run("logged out", func(t *testing.T) {
		t.Parallel()
		loggedOut(t, newTab(browser, t, guarded))
	})
}

// appears opens each page in a scheme of colors.
func appears(t *testing.T, tb *tab, scheme string) {
	call(tb, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	for path, says := range shown {
		tb.open(path)
		if text := tb.text(); !strings.Contains(text, says) {
			t.Errorf("%s: no %q in\n%s", path, says, text)
		}
		eval[bool](tb, `document.querySelectorAll("details").forEach(d => d.open = true), true`)
		if wide := eval[int](tb, `document.documentElement.scrollWidth - innerWidth`); wide > 0 {
			t.Errorf("%s is %d pixels too wide", path, wide)
		}
		if n := eval[int](tb, `[...document.querySelectorAll(".scroll")].filter(e => e.scrollWidth > e.clientWidth || e.querySelector("td:not([data-th])")).length`); n > 0 {
			t.Errorf("%s has a table that must be scrolled, or a cell without the name of its column", path)
		}
		if n := eval[int](tb, `document.querySelectorAll("img[src=x], main script").length`); n > 0 {
			t.Errorf("%s: hostile text is no text", path)
		}
		background := eval[string](tb, `getComputedStyle(document.body).backgroundColor`)
		if dark := background == "rgb(13, 17, 23)"; dark != (scheme == "dark") {
			t.Errorf("%s: the background is %s", path, background)
		}
		if strings.Contains(strings.ToLower(says), "there is no such") {
			tb.forgive("404") // which the browser logs
		}
		tb.check(path)
	}
}

// forgive forgets problems that a page is to have.
func (tb *tab) forgive(text string) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	var left []string
	for _, p := range tb.problems {
		if !strings.Contains(p, text) {
			left = append(left, p)
		}
	}
	tb.problems = left
}

// refreshes looks at the page asking for itself again.
func refreshes(t *testing.T, tb *tab) {
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

// loggedOut has the session end in another tab: the page says so, and leads to the login.
func loggedOut(t *testing.T, tb *tab) {
	tb.do(chromedp.Navigate(tb.home+"/tenants"), chromedp.SendKeys(chromedp.CSS("#token"), "secret"+kb.Enter))
	tb.await("Waiting timers")
	eval[bool](tb, `fetch("/guarded/logout", {method: "POST"}), true`)
	tb.await("Not refreshed: log in again")
	if text := tb.text(); !strings.Contains(text, "Waiting timers") || strings.Contains(text, "does not answer") {
		t.Errorf("without a session the page says:\n%s", text)
	}
	tb.forgive("401")
	tb.click("log in again")
	tb.await("Token, the value")
	tb.check("login")
}
