package schema_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/envelope/schema"
)

var update = flag.Bool("update", false, "write the schemas and the AsyncAPI document")

// An object is one of JSON. It is written with its keys sorted.
type object = map[string]any

// TestFilesAreUpToDate generates every file again.
func TestFilesAreUpToDate(t *testing.T) {
	t.Parallel()
	want := map[string][]byte{"asyncapi.json": encode(t, asyncAPI(t))}
	for name, s := range schemas(t) {
		s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
		s["$id"] = namespace + schema.Version + "/" + name
		want[name+".json"] = encode(t, s)
	}
	found, err := filepath.Glob("*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range found {
		if want[name] != nil {
			continue
		}
		if !*update {
			t.Errorf("%s is no longer made: run go test ./envelope/schema -update", name)
		} else if err := os.Remove(name); err != nil {
			t.Error(err)
		}
	}
	for name, text := range want {
		if *update {
			if err := os.WriteFile(name, text, 0o644); err != nil { //nolint:gosec // a page for all
				t.Fatal(err)
			}
			continue
		}
		if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, text) {
			t.Errorf("%s differs from the file that is made from the code (%v): run go test ./envelope/schema -update", name, err)
		}
	}
}

// The version stands in the schemas, the AsyncAPI document and the docs.
func TestOneVersion(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/messages.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := "This page is version " + schema.Version + " of the contract."; !strings.Contains(string(page), want) {
		t.Errorf("docs/messages.md does not say: %s", want)
	}
	var document struct {
		Info struct{ Version string }
	}
	if err := json.Unmarshal(schema.AsyncAPI(), &document); err != nil || document.Info.Version != schema.Version {
		t.Errorf("the AsyncAPI document is of version %q, %v", document.Info.Version, err)
	}
	if len(schema.Names()) < 8 {
		t.Errorf("there are %d schemas", len(schema.Names()))
	}
	for _, name := range schema.Names() {
		var s struct {
			ID string `json:"$id"`
		}
		if err := json.Unmarshal(schema.Of(name), &s); err != nil || s.ID != namespace+schema.Version+"/"+name {
			t.Errorf("%s has the $id %q, %v", name, s.ID, err)
		}
	}
	if schema.Of("asyncapi") != nil || schema.Of("../schema") != nil || schema.Of("") != nil {
		t.Error("there is a schema that is none")
	}
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
