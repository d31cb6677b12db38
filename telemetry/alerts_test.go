package telemetry_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"go.yaml.in/yaml/v3"

	"github.com/event-service-agent/timer-service/handlers"
)

const (
	rulesFile = "../docs/alerts/rules.yml"
	testsFile = "../docs/alerts/tests.yml"
	runbook   = "../docs/troubleshooting.md"
)

// A rule is an alert, or a recording rule for one.
type rule struct {
	Record, Alert, Expr string
	Labels, Annotations map[string]string
}

func (r rule) name() string { return r.Record + r.Alert }

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	must(t, err)
	return string(text)
}

// parse reads a YAML file.
func parse[T any](t *testing.T, name string) (v T) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(read(t, name)), &v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return v
}

// rules returns all rules, and the names of the alerts in their order.
func rules(t *testing.T) (all []rule, alerts []string) {
	t.Helper()
	for _, g := range parse[struct{ Groups []struct{ Rules []rule } }](t, rulesFile).Groups {
		for _, r := range g.Rules {
			all = append(all, r)
			if r.Alert != "" {
				alerts = append(alerts, r.Alert)
			}
		}
	}
	if len(alerts) < 15 {
		t.Fatalf("%d alerts in %s", len(alerts), rulesFile)
	}
	return all, alerts
}

// A panel of the dashboard, and its queries.
type panel struct {
	Title   string
	Targets []struct{ Expr string }
}

// dashboard returns the panels of docs/grafana.json.
func dashboard(t *testing.T) []panel {
	t.Helper()
	var b struct{ Panels []panel }
	must(t, json.Unmarshal([]byte(read(t, "../docs/grafana.json")), &b))
	if len(b.Panels) < 15 {
		t.Fatalf("%d panels", len(b.Panels))
	}
	return b.Panels
}

func TestRulesPassPromtool(t *testing.T) {
	t.Parallel()
	promtool, err := exec.LookPath("promtool")
	switch {
	case err != nil && os.Getenv("TIMER_TEST_REQUIRE") != "":
		t.Fatal("there is no promtool: install prometheus")
	case err != nil:
		t.Skip("SKIPPED, NOTHING IS PROVEN: there is no promtool")
	}
	for _, args := range [][]string{{"check", "rules", rulesFile}, {"test", "rules", testsFile}} {
		if out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// TestRulesUseWhatIsServed compares the metrics and the values of labels that rules and
// dashboard use with the answer of the service.
func TestRulesUseWhatIsServed(t *testing.T) {
	t.Parallel()
	tel := served(t)
	tel.Hooks().Polled(time.Millisecond, errors.New("disk full"))
	tel.Hooks().Committed(1, time.Millisecond, errors.New("disk full"))
	families, recorded := scrape(t, tel.Handler()), make(map[string]bool)
	check := func(where, expr string) {
		found := selectors(expr)
		if len(found) == 0 {
			t.Errorf("%s: no metric in %s", where, expr)
		}
		for _, s := range found {
			if s.metric == "up" || recorded[s.metric] {
				continue
			}
			if err := s.served(families); err != nil {
				t.Errorf("%s: %v", where, err)
			}
		}
	}
	all, _ := rules(t)
	for _, r := range all {
		check(r.name(), r.Expr)
		recorded[r.Record] = true
	}
	for _, p := range dashboard(t) {
		for _, q := range p.Targets {
			check(p.Title, q.Expr)
		}
	}
	for _, wrong := range []string{
		"timer_nothing", `timer_ready_ratio{part="stroe"}`, `timer_ready_ratio{part!~"store|stroe"}`, `timer_ready_ratio{prat="store"}`,
		`timer_lateness_published_seconds_bucket{le="0.04"}`, `timer_lateness_published_seconds{job="a"}`, "timer_outbox_depth_count",
	} {
		if s := selectors(wrong); len(s) != 1 || s[0].served(families) == nil {
			t.Errorf("%s is not found to be wrong: %v", wrong, s)
		}
	}
}

// TestEachAlertIsTestedAndExplained compares the alerts with tests.yml, where each fires at
// one time and not at another, and with the runbook.
func TestEachAlertIsTestedAndExplained(t *testing.T) {
	t.Parallel()
	type promtoolTest struct {
		Tests []struct {
			Checks []struct {
				Samples []struct{ Labels string } `yaml:"exp_samples"`
			} `yaml:"promql_expr_test"`
		}
	}
	all, alerts := rules(t)
	firing := regexp.MustCompile(`alertname="(\w+)",alertstate="firing"`)
	tested := make(map[string]bool) // whether it also does not fire in the same test
	for _, test := range parse[promtoolTest](t, testsFile).Tests {
		times := make(map[string]int)
		for _, c := range test.Checks {
			names := make(map[string]bool)
			for _, s := range c.Samples {
				if m := firing.FindStringSubmatch(s.Labels); m != nil {
					names[m[1]] = true
				}
			}
			for name := range names {
				times[name]++
			}
		}
		for name, n := range times {
			tested[name] = tested[name] || n < len(test.Checks)
			if !slices.Contains(alerts, name) {
				t.Errorf("%s tests %s, which is no alert", testsFile, name)
			}
		}
	}
	for _, name := range alerts {
		if silent, fires := tested[name]; !fires || !silent {
			t.Errorf("%s in %s: a case where it fires: %v, and one where it does not: %v", name, testsFile, fires, silent)
		}
	}
	var explained []string
	for _, m := range regexp.MustCompile(`(?m)^### (\w+)$`).FindAllStringSubmatch(read(t, runbook), -1) {
		explained = append(explained, m[1])
	}
	if diff := cmp.Diff(alerts, explained); diff != "" {
		t.Errorf("alerts and sections of %s, in their order (-alerts +runbook):\n%s", runbook, diff)
	}
	for _, r := range all {
		if r.Alert == "" {
			continue
		}
		url := "https://github.com/event-service-agent/timer-service/blob/main/docs/troubleshooting.md#" + strings.ToLower(r.Alert)
		if r.Annotations["runbook_url"] != url || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s: annotations %v, want a summary, a description and %s", r.Alert, r.Annotations, url)
		}
		if s := r.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("%s: severity %q", r.Alert, s)
		}
	}
}

// A selector is a metric of an expression, with its matchers.
type selector struct {
	text, metric string
	matchers     []string
}

var (
	selecting = regexp.MustCompile(`\b(up|timer_\w+|job:\w+:\w+|process_\w+|go_\w+)\b(?:\{([^}]*)\})?`)
	matcher   = regexp.MustCompile(`(\w+)(=~|!~|!=|=)"([^"]*)"`)
)

func selectors(expr string) (found []selector) {
	for _, m := range selecting.FindAllStringSubmatch(expr, -1) {
		found = append(found, selector{m[0], m[1], matcher.FindAllString(m[2], -1)})
	}
	return found
}

// served returns an error if a selector asks for a metric that is not served, or for a value of
// a label that is not. Prometheus adds the labels job and instance.
func (s selector) served(families map[string]*dto.MetricFamily) error {
	family, isHistogram := families[s.metric], false
	for _, suffix := range []string{"_bucket", "_count", "_sum"} {
		if name, cut := strings.CutSuffix(s.metric, suffix); cut && family == nil {
			family, isHistogram = families[name], true
		}
	}
	if family == nil || isHistogram != (family.GetType() == dto.MetricType_HISTOGRAM) {
		return fmt.Errorf("%s is not served", s.metric)
	}
	values := map[string]bool{"outcome=" + handlers.OutcomeFailed: true} // of a database that fails, which is not here
	for _, m := range family.GetMetric() {
		for _, l := range m.GetLabel() {
			values[l.GetName()+"="+l.GetValue()] = true
		}
		for _, b := range m.GetHistogram().GetBucket() {
			bound := strconv.FormatFloat(b.GetUpperBound(), 'g', -1, 64)
			values["le="+bound], values["le="+bound+".0"] = true, true // whole ones are 1 in text and 1.0 in OpenMetrics
		}
	}
	for _, text := range s.matchers {
		m := matcher.FindStringSubmatch(text)
		if m[1] == "job" || m[1] == "instance" {
			continue
		}
		for _, value := range strings.Split(m[3], "|") {
			if !values[m[1]+"="+value] {
				return fmt.Errorf("%s: no %s=%q is served", s.text, m[1], value)
			}
		}
	}
	return nil
}
