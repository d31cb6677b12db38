package admin_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/envelope/schema"
)

var update = flag.Bool("update", false, "write docs/openapi.json")

// TestOpenAPIIsAsDocumented compares what is served with the file.
func TestOpenAPIIsAsDocumented(t *testing.T) {
	t.Parallel()
	const name = "../docs/openapi.json"
	code, got := get(serving(t, seeded(t)), "/openapi.json")
	if code != 200 {
		t.Fatal(code, got)
	}
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs; go test ./admin -run OpenAPI -update writes it (-file +served):\n%s", name, diff)
	}
}

// TestOpenAPIHasThePrefix: clients put it in front of the paths.
func TestOpenAPIHasThePrefix(t *testing.T) {
	t.Parallel()
	s := admin.New(quiet, admin.Options{Prefix: "/timers", Monitor: watched(t), Timers: seeded(t)})
	_, text := get(s, "/timers/openapi.json")
	var got struct {
		OpenAPI string
		Servers []struct{ URL string }
		Paths   map[string]any
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil || got.OpenAPI != "3.1.0" || len(got.Servers) != 1 || got.Servers[0].URL != "/timers" || got.Paths["/v1/stats"] == nil {
		t.Errorf("%+v %v", got, err)
	}
	if code, _ := get(s, "/timers/v1/stats"); code != 200 {
		t.Error(code)
	}
}

// TestPageDescribesEachOperation: docs/api.md has all paths of the document.
func TestPageDescribesEachOperation(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ Paths map[string]map[string]any }
	_, text := get(serving(t, seeded(t)), "/openapi.json")
	if err := json.Unmarshal([]byte(text), &got); err != nil || len(got.Paths) == 0 {
		t.Fatalf("%v in %s", err, text)
	}
	for path := range got.Paths {
		if !bytes.Contains(page, []byte("`"+path+"`")) && !bytes.Contains(page, []byte("`"+path+"?")) {
			t.Errorf("docs/api.md does not have %s", path)
		}
	}
}

func TestSchemasAreServed(t *testing.T) {
	t.Parallel()
	s := serving(t, seeded(t))
	if code, got := get(s, "/asyncapi.json"); code != 200 || got != string(schema.AsyncAPI()) {
		t.Errorf("%d %s", code, got)
	}
	names := schema.Names()
	if !slices.Contains(names, "ScheduleTimer") {
		t.Fatal(names)
	}
	for _, name := range names {
		for _, path := range []string{"/schemas/" + name, "/schemas/" + name + ".json"} {
			if code, got := get(s, path); code != 200 || got != string(schema.Of(name)) {
				t.Errorf("%s: %d %s", path, code, got)
			}
		}
	}
	for _, path := range []string{"/schemas/none", "/schemas/..%2F..%2Fschema.go", "/schemas/%2e%2e", "/schemas/asyncapi"} {
		if code, got, _ := ask(t, s, "GET", path); code != 404 || !strings.Contains(got["detail"].(string), "ScheduleTimer") {
			t.Errorf("%s: %d %v", path, code, got)
		}
	}
}
