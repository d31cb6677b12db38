package symptom_test

import (
	"flag"
	"os"
	"strings"
	"testing"
	"text/template"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/internal/symptom"
)

var update = flag.Bool("update", false, "write docs/troubleshooting.md")

// TestPage compares docs/troubleshooting.md with the page that the table makes.
func TestPage(t *testing.T) {
	t.Parallel()
	page, err := template.ParseFiles("testdata/troubleshooting.md.tmpl")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	if err := page.Execute(&want, map[string][]symptom.Symptom{
		"Start": symptom.Start, "NotReady": symptom.NotReady, "Running": symptom.Running, "Messages": symptom.Messages, "Alerts": symptom.Alerts,
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
