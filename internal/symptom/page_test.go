package symptom_test

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
	"text/template"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/internal/symptom"
)

var update = flag.Bool("update", false, "write docs/troubleshooting.md")

// varies stands for a part of a message that differs each time.
const varies = "…"

var formatted = regexp.MustCompile(`%(\[\d+\])?[-+# 0]*[\d.]*[a-zA-Z]`)

// vary returns a format as a person sees it.
func vary(format string) string {
	text := strings.ReplaceAll(formatted.ReplaceAllString(format, varies), "%%", "%")
	return strings.ReplaceAll(text, varies+varies, varies)
}

// TestPage compares docs/troubleshooting.md with the page that the table makes.
func TestPage(t *testing.T) {
	t.Parallel()
	page, err := template.New("").Funcs(template.FuncMap{"vary": vary, "seen": func(s symptom.Symptom) string {
		text := "`" + vary(s.Text) + "`"
		if s.Cause != "" {
			text += ", " + s.Cause
		}
		return text
	}}).ParseFiles("testdata/troubleshooting.md.tmpl")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	if err := page.ExecuteTemplate(&want, "troubleshooting.md.tmpl", map[string][]symptom.Symptom{
		"Start": symptom.Start, "NotReady": symptom.NotReady, "Running": symptom.Running, "Messages": symptom.Messages,
		"Commands": symptom.Commands, "Checks": symptom.Checks, "Doctor": symptom.Doctor, "Alerts": symptom.Alerts,
	}); err != nil {
		t.Fatal(err)
	}
	const name = "../../docs/troubleshooting.md"
	if *update {
		if err := os.WriteFile(name, []byte(want.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.String(), string(got)); diff != "" {
		t.Errorf("%s is not what go generate makes (-want +got):\n%s", name, diff)
	}
}

// TestChecksAreComplete compares the lists with the package's variables: the page has all.
func TestChecksAreComplete(t *testing.T) {
	t.Parallel()
	for file, list := range map[string][]symptom.Symptom{"checks.go": symptom.Checks, "doctor.go": symptom.Doctor} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(source), "= Symptom{"); n != len(list) {
			t.Errorf("%s has %d symptoms, and its list %d", file, n, len(list))
		}
		for _, s := range list {
			if s.Text == "" || s.Do == "" {
				t.Errorf("%s: a symptom without its text or its advice: %+v", file, s)
			}
		}
	}
}
