package admin_test

import (
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/envelope/schema"
)

var update = flag.Bool("update", false, "write docs/openapi.json")

// TestOpenAPIIsAsDocumented compares the served description with the file.
func TestOpenAPIIsAsDocumented(t *testing.T) {
	t.Parallel()
	const name = "../docs/openapi.json"
	code, got := get(serving(t, seeded(t)), "/openapi.json")
	if code != 200 {
		t.Fatal(code, got)
	}
	if *update {
		must(t, os.WriteFile(name, []byte(got), 0o600))
	}
	want, err := os.ReadFile(name)
	must(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs; go test ./admin -run OpenAPI -update writes it (-file +served):\n%s", name, diff)
	}
}

// TestPageHasTheTableOfOperations: docs/api.md has the rows of the table, with their parameters, who
// may ask for them, and the verbs that do.
func TestPageHasTheTableOfOperations(t *testing.T) {
	t.Parallel()
	const name, begin, end = "../docs/api.md", "<!-- operations -->\n", "<!-- end of operations -->"
	table := "\n| | what | in the query | tokens of | verb |\n| --- | --- | --- | --- | --- |\n"
	for _, o := range admin.Operations {
		var query, verbs []string
		for _, p := range o.Params {
			if !p.InPath {
				query = append(query, "`"+p.Name+"`")
			}
		}
		if o.Verb != "" {
			verbs = append(verbs, "`"+o.Verb+"`")
		}
		for _, v := range admin.Verbs {
			if slices.ContainsFunc(v.Cases, func(c admin.Case) bool { return c.ID == o.ID }) {
				verbs = append(verbs, "`"+v.Name+"`")
			}
		}
		table += fmt.Sprintf("| `%s` `%s` | %s. | %s | %s | %s |\n", o.Method, o.Path, o.Summary, strings.Join(query, ", "), o.Who(), strings.Join(verbs, ", "))
	}
	page, err := os.ReadFile(name)
	must(t, err)
	before, rest, _ := strings.Cut(string(page), begin)
	got, after, found := strings.Cut(rest, end)
	if *update {
		must(t, os.WriteFile(name, []byte(before+begin+table+"\n"+end+after), 0o600))
	} else if diff := cmp.Diff(table+"\n", got); diff != "" || !found {
		t.Errorf("%s differs; go test ./admin -run Operations -update writes it (-table +file):\n%s", name, diff)
	}
}

func TestSchemasAreServed(t *testing.T) {
	t.Parallel()
	s := serving(t, seeded(t))
	if code, got := get(s, "/asyncapi.json"); code != 200 || got != string(schema.AsyncAPI()) {
		t.Errorf("%d %s", code, got)
	}
	for _, name := range []string{"ScheduleTimer", "ScheduleTimer.json"} {
		if code, got := get(s, "/schemas/"+name); code != 200 || got != string(schema.Of("ScheduleTimer")) {
			t.Errorf("%s: %d %s", name, code, got)
		}
	}
	for _, path := range []string{"/schemas/none", "/schemas/..%2F..%2Fschema.go", "/schemas/%2e%2e", "/schemas/asyncapi"} {
		if code, got, _ := ask(t, s, "GET", path); code != 404 || !strings.Contains(got["detail"].(string), "ScheduleTimer") {
			t.Errorf("%s: %d %v", path, code, got)
		}
	}
}

// TestDocsLoadNothingFromElsewhere: each script, style and image of the page is served
// here, and the policy allows no other.
func TestDocsLoadNothingFromElsewhere(t *testing.T) {
	t.Parallel()
	s := admin.New(quiet, admin.Options{Prefix: "/timers", Monitor: watched(t), Timers: seeded(t)})
	fetch := func(path string) *httptest.ResponseRecorder { return request(s, "GET", path, "") }
	if text := fetch("/timers/openapi.json").Body.String(); !strings.Contains(text, `"url": "/timers"`) {
		t.Error("clients are not told the prefix")
	}
	if w := fetch("/timers/docs"); w.Code != 307 || w.Header().Get("Location") != "/timers/docs/" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	w := fetch("/timers/docs/")
	page := w.Body.String()
	loaded := regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(page, -1)
	if w.Code != 200 || len(loaded) != 4 || strings.Contains(page, "<style") || strings.Contains(page, "<script>") {
		t.Fatalf("%d %s", w.Code, page)
	}
	for _, l := range loaded {
		if w := fetch(path.Join("/timers/docs", l[1])); w.Code != 200 || w.Body.Len() == 0 {
			t.Errorf("%s: %d", l[1], w.Code)
		}
	}
	const want = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
	for path, policy := range map[string]string{"/timers/docs/": want + "; img-src 'self' data:", "/timers/v1/stats": want} {
		if got := fetch(path).Header().Get("Content-Security-Policy"); got != policy {
			t.Errorf("%s: %s", path, got)
		}
	}
	if code := fetch("/timers/docs/none.js").Code; code != 404 {
		t.Error(code)
	}
}
