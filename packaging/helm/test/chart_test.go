// Package helm checks the chart in ../timer-service, with Helm's own code and the
// types of Kubernetes.
package helm

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/chart/common"
	commonutil "helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/yaml"

	"github.com/event-service-agent/timer-service/config"
)

const (
	folder   = "../timer-service"
	examples = "../examples"
)

// TestLint is helm lint --strict, with the defaults and with each example.
func TestLint(t *testing.T) {
	t.Parallel()
	for name, values := range allValues(t) {
		for _, message := range lint.RunAll(folder, values, "timers").Messages {
			if message.Severity > support.InfoSev {
				t.Errorf("%s: %s", name, message)
			}
		}
	}
}

// TestPackage has the chart packed, and the archive make the same: the alert rules are
// a link to docs/alerts/rules.yml, and a file of the archive.
func TestPackage(t *testing.T) {
	t.Parallel()
	file, err := chartutil.Save(load(t), t.TempDir())
	must(t, err)
	packed, err := loader.Load(file)
	must(t, err)
	values := allValues(t)["postgres-full"]
	want, err := render(load(t), values)
	must(t, err)
	if got, err := render(packed, values); err != nil || got != want {
		t.Errorf("the archive makes other objects: %v\n%s", err, cmp.Diff(want, got))
	}
}

// TestSettings holds the schema's list of settings to that of the service: a setting is
// either listed, or made of other values by the chart.
func TestSettings(t *testing.T) {
	t.Parallel()
	var schema struct {
		Properties struct {
			Settings struct{ PropertyNames struct{ Enum []string } }
		}
	}
	text, err := os.ReadFile(filepath.Join(folder, "values.schema.json"))
	must(t, err)
	must(t, json.Unmarshal(text, &schema))
	listed := schema.Properties.Settings.PropertyNames.Enum
	made := map[string]bool{"TIMER_NATS_PORT": true, "TIMER_SERVER": true} // in nats_listen; for clients
	for name, values := range allValues(t) {
		for _, variable := range podOf(t, name, values).Containers[0].Env {
			made[variable.Name] = true
		}
	}
	for _, s := range config.Settings() {
		is := slices.Contains(listed, s.Key)
		switch {
		case s.Secret && is:
			t.Errorf("%s is a secret, and can be given in clear text", s.Key)
		case !made[s.Env] && !is:
			t.Errorf("%s is missing in the schema", s.Key)
		}
	}
	for _, key := range listed {
		if !slices.ContainsFunc(config.Settings(), func(s config.Setting) bool { return s.Key == key }) {
			t.Errorf("%s is no setting", key)
		}
	}
}

func TestValuesThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, values := range []string{
		"mode: mysql",
		"mods: sqlite",
		"broker: {kind: gochannel}",
		"broker: {url: 'nats://user:password@nats:4222'}",
		"broker: {password: secret}",
		"broker: {urlSecret: {name: a, value: b}}",
		"{mode: postgres, broker: {embedded: true}}",
		"broker: {embedded: true, kind: kafka}",
		"broker: {embedded: true, urlSecret: {name: nats}}",
		"broker: {embedded: true, tlsSecret: {name: nats}}",
		"broker: {kind: kafka, credsSecret: {name: nats}}",
		"broker: {kind: rabbitmq, tokenSecret: {name: nats}}",
		"http: {token: secret}",
		"http: {port: 80}",
		"settings: {http_token: secret}",
		"settings: {db_url: 'postgres://user:password@host/db'}",
		"settings: {retentoin: 7d}",
		"settings: {retention: {days: 7}}",
		"settings: {drain_timeout: 1m}",
		"extraEnv: [{name: TIMER_HTTP_TOKEN, value: secret}]",
		"postgres: {replicas: many}",
		"secretName: ''",
		"quotas: {tenant: {acme: {live_timers: 1}}}",
		"startupSeconds: 1",
		"image: {digest: latest}",
	} {
		if _, err := render(load(t), parse(t, values)); err == nil || !strings.Contains(err.Error(), "values don't meet the specifications") {
			t.Errorf("%s is not refused by the schema: %v", values, err)
		}
	}
}

// TestNotes renders NOTES.txt: what to do next, with the names of the release.
func TestNotes(t *testing.T) {
	t.Parallel()
	for name, values := range allValues(t) {
		files, err := renderFiles(load(t), values)
		notes := files["timer-service/templates/NOTES.txt"]
		if err != nil || !strings.Contains(notes, "timer-service schedule acme --in 3s --until-fired") || !strings.Contains(notes, "/shop-timer-service") {
			t.Errorf("%s: %v: %s", name, err, notes)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func load(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.Load(folder)
	must(t, err)
	return c
}

// allValues returns the examples by name.
func allValues(t *testing.T) map[string]map[string]any {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(examples, "*.yaml"))
	if err != nil || len(files) < 6 {
		t.Fatalf("%d examples: %v", len(files), err)
	}
	all := make(map[string]map[string]any)
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		all[strings.TrimSuffix(filepath.Base(file), ".yaml")] = parse(t, string(text))
	}
	return all
}

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	values, err := loader.LoadValues(strings.NewReader(text))
	must(t, err)
	return values
}

// renderFiles is helm template shop ../timer-service --namespace timers.
func renderFiles(c *chart.Chart, values map[string]any) (map[string]string, error) {
	release := common.ReleaseOptions{Name: "shop", Namespace: "timers", IsInstall: true}
	all, err := commonutil.ToRenderValues(c, values, release, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Engine{Strict: true}.RenderWithContext(context.Background(), c, all)
}

// render returns the documents of all templates, in the order of files.
func render(c *chart.Chart, values map[string]any) (string, error) {
	files, err := renderFiles(c, values)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if filepath.Ext(name) != ".yaml" {
			continue
		}
		for document := range strings.SplitSeq(files[name], "\n---\n") {
			if strings.TrimSpace(document) != "" {
				fmt.Fprintf(&out, "---\n%s\n", strings.TrimSpace(document))
			}
		}
	}
	return out.String(), nil
}

// documents returns what each document of an example says it is, and its text.
func documents(t *testing.T, name string, values map[string]any) []document {
	t.Helper()
	text, err := render(load(t), values)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	var all []document
	for text := range strings.SplitSeq(strings.TrimPrefix(text, "---\n"), "\n---\n") {
		d := document{text: []byte(text)}
		if err := yaml.Unmarshal(d.text, &d); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all = append(all, d)
	}
	return all
}

// A document is one object of Kubernetes.
type document struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	text       []byte
}
