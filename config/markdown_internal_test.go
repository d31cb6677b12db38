package config

import (
	_ "embed" // the page of the documentation
	"flag"
	"os"
	"strings"
	"testing"
	"text/template"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/quota"
)

var update = flag.Bool("update", false, "write docs/configuration.md")

//go:embed configuration.md.tmpl
var page string

// markdown returns the documentation of all settings, and of the file with quotas.
func markdown(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	tables := map[string][]Setting{"Settings": Settings(), "Quotas": describe(quotaSettings(new(quota.Limits)))}
	if err := template.Must(template.New("configuration.md").Parse(page)).Execute(&b, tables); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestDocumentationIsTheTable(t *testing.T) {
	t.Parallel()
	const name = "../docs/configuration.md"
	if *update {
		if err := os.WriteFile(name, []byte(markdown(t)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(page), markdown(t)); diff != "" {
		t.Errorf("%s differs from the table; run go test ./config -update (-page +table):\n%s", name, diff)
	}
}
