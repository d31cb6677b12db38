package contract_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/event-service-agent/timer-service/envelope/schema"
)

// TestAsyncAPIDocument holds the document to the schema of AsyncAPI 3.0.0, which
// comes from npm.
func TestAsyncAPIDocument(t *testing.T) {
	t.Parallel()
	specification, err := os.ReadFile(filepath.Join(install(t), "node_modules", "@asyncapi", "specs", "schemas", "3.0.0-without-$id.json"))
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(specification))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("asyncapi", parsed); err != nil {
		t.Fatal(err)
	}
	validator, err := c.Compile("asyncapi")
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema.AsyncAPI()))
	if err != nil {
		t.Fatal(err)
	}
	if err := validator.Validate(document); err != nil {
		t.Errorf("%#v", err)
	}
	document.(map[string]any)["channels"].(map[string]any)["natsEvents"].(map[string]any)["queue"] = "x"
	if validator.Validate(document) == nil {
		t.Error("a channel with a key that is none is valid")
	}
}

// TestReferencesResolve follows each $ref of the document.
func TestReferencesResolve(t *testing.T) {
	t.Parallel()
	var document map[string]any
	if err := json.Unmarshal(schema.AsyncAPI(), &document); err != nil {
		t.Fatal(err)
	}
	followed := 0
	var visit func(v any)
	visit = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, item := range v {
				visit(item)
			}
		case map[string]any:
			if to, ok := v["$ref"].(string); ok {
				followed++
				var at any = document
				for _, name := range strings.Split(strings.TrimPrefix(to, "#/"), "/") {
					inner, _ := at.(map[string]any)
					at = inner[name]
				}
				if at == nil {
					t.Errorf("%s leads nowhere", to)
				}
			}
			for _, item := range v {
				visit(item)
			}
		}
	}
	visit(document)
	if followed < 30 {
		t.Errorf("the document has %d references", followed)
	}
}

// TestSchemasInTheAsyncAPIDocument compares the schemas in the document with the
// files: they are the same but for what the messages have.
func TestSchemasInTheAsyncAPIDocument(t *testing.T) {
	t.Parallel()
	var document struct {
		Components struct{ Schemas map[string]map[string]any }
	}
	if err := json.Unmarshal(schema.AsyncAPI(), &document); err != nil {
		t.Fatal(err)
	}
	for _, name := range schema.Names() {
		var s map[string]any
		if err := json.Unmarshal(schema.Of(name), &s); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"$id", "$schema", "examples"} {
			delete(s, key)
		}
		want, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := json.Marshal(document.Components.Schemas[name]); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v\n got %s\nwant %s", name, err, got, want)
		}
	}
}

// TestDraft07 compares what the schemas mean in draft 07, as which tools for AsyncAPI
// read them, with what they mean in draft 2020-12.
func TestDraft07(t *testing.T) {
	t.Parallel()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema.AsyncAPI()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft7)
	if err := c.AddResource("asyncapi", document); err != nil {
		t.Fatal(err)
	}
	older := make(map[string]*jsonschema.Schema)
	for _, m := range messages() {
		older[m.name] = c.MustCompile("asyncapi#/components/schemas/" + m.name)
	}
	g := newGenerator(11)
	valid := 0
	for range 1_000 {
		body := g.body()
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
		if err != nil {
			continue
		}
		for _, m := range messages() {
			newer := m.validator.Validate(v) == nil
			if newer != (older[m.name].Validate(v) == nil) {
				t.Fatalf("%s: valid in draft 2020-12 is %v, in draft 07 not: %s", m.name, newer, body)
			}
			if newer {
				valid++
			}
		}
	}
	if valid < 250 {
		t.Errorf("%d messages are valid", valid)
	}
}

// TestSchemasFitOtherTools: a validator in strict mode takes each of them, and a generator of
// code makes types with names of them.
func TestSchemasFitOtherTools(t *testing.T) {
	t.Parallel()
	dir := install(t)
	folder, err := filepath.Abs("../../envelope/schema")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", "schemas.mjs", folder)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range append(schema.Names(), "ScheduleTimerPayload", "ScheduleTimersItem") {
		if !strings.Contains(string(out), "export interface "+name+" {") {
			t.Errorf("there is no type %s", name)
		}
	}
}

// install returns a folder with the packages of package.json: this one, if npm has
// been run in it, or else a new one. The test is skipped without npm, or fails if
// $TIMER_TEST_REQUIRE is set.
func install(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat("node_modules"); err == nil {
		return "."
	}
	missing := t.Skipf
	if os.Getenv("TIMER_TEST_REQUIRE") != "" {
		missing = t.Fatalf
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		missing("SKIPPED, NOTHING IS PROVEN: npm is not installed: %v", err)
	}
	dir := t.TempDir()
	for _, name := range []string{"package.json", "package-lock.json", "schemas.mjs"} {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), npm, "ci", "--no-audit", "--no-fund")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		missing("SKIPPED, NOTHING IS PROVEN: npm ci: %v\n%s", err, out)
	}
	return dir
}
