// Package contract_test compares the JSON Schemas of package envelope/schema with
// envelope.Decode: a message that one takes and the other refuses breaks a rule
// that the schema lists as one that it can't express.
package contract_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/envelope/schema"
	"github.com/event-service-agent/timer-service/timer"
)

// A message is what a schema says of one type of messages.
type message struct {
	name      string
	validator *jsonschema.Schema
	rules     map[string][]timer.Reason // those that the schema can't express
}

// messages are those of all schemas but the ones of headers.
var messages = sync.OnceValue(func() []message {
	var all []message
	for _, name := range schema.Names() {
		if strings.HasSuffix(name, "Headers") {
			continue
		}
		var s struct {
			Comment string `json:"$comment"`
		}
		if err := json.Unmarshal(schema.Of(name), &s); err != nil {
			panic(err)
		}
		m := message{name, compile(name), make(map[string][]timer.Reason)}
		for _, rule := range ruleForm.FindAllStringSubmatch(s.Comment, -1) {
			for reason := range strings.FieldsSeq(rule[2]) {
				m.rules[rule[1]] = append(m.rules[rule[1]], timer.Reason(reason))
			}
		}
		all = append(all, m)
	}
	return all
})

// ruleForm is a line of the comment of a schema: the name of a rule, and reasons.
var ruleForm = regexp.MustCompile(`(?m)^([a-z]+) \[([a-z0-9_ ]+)\]: .`)

// compile returns the validator of a schema.
func compile(name string) *jsonschema.Schema {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema.Of(name)))
	if err != nil {
		panic(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(name, document); err != nil {
		panic(err)
	}
	return c.MustCompile(name)
}

// hugeExponent is that of a number which the validator would write out in digits.
var hugeExponent = regexp.MustCompile(`[eE][+-]?[0-9]{3}`)

// compare checks one body, and calls note with each rule that made the difference.
func compare(t *testing.T, body []byte, note func(schema, rule string)) {
	t.Helper()
	var taken []message
	if document, err := jsonschema.UnmarshalJSON(bytes.NewReader(body)); err == nil {
		for _, m := range messages() {
			if m.validator.Validate(document) == nil {
				taken = append(taken, m)
			}
		}
	}
	if len(taken) > 1 {
		t.Fatalf("%s and %s take the same message: %s", taken[0].name, taken[1].name, body)
	}
	decoded, err := envelope.Decode(body)
	if err == nil {
		takes(t, body, decoded, taken)
		return
	}
	if len(taken) == 0 {
		return
	}
	invalid, ok := errors.AsType[*timer.InvalidError](err)
	if !ok {
		t.Fatalf("Decode returns %v", err)
	}
	for rule, reasons := range taken[0].rules {
		if slices.Contains(reasons, invalid.Reason) && broken[rule](body) {
			note(taken[0].name, rule)
			return
		}
	}
	t.Fatalf("%s takes what Decode refuses (%v), and no rule of its list is broken: %s", taken[0].name, err, body)
}

// takes checks what the schemas say of a body that Decode takes.
func takes(t *testing.T, body []byte, decoded envelope.Message, taken []message) {
	t.Helper()
	var want []string
	top := read(body).top
	_, cloudEvent := top["specversion"]
	switch {
	case decoded.Payload == nil:
	case decoded.TimestampMS < firstMS: // Decode leaves it to the handlers
	case cloudEvent:
		want = []string{decoded.Type + "CloudEvent"}
	default:
		want = []string{decoded.Type}
	}
	var got []string
	for _, m := range taken {
		got = append(got, m.name)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("Decode takes it as %s, the schemas %v: %s\n%v", decoded.Type, got, body, why(decoded.Type, cloudEvent, body))
	}
}

// why returns what a schema finds wrong with a body.
func why(name string, cloudEvent bool, body []byte) error {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	if cloudEvent {
		name += "CloudEvent"
	}
	return compile(name).Validate(document)
}

// Every rule of a schema can be checked here, and every check is a rule of one.
func TestRulesAreKnown(t *testing.T) {
	t.Parallel()
	used := make(map[string]bool)
	for _, m := range messages() {
		for rule := range m.rules {
			used[rule] = true
			if broken[rule] == nil {
				t.Errorf("%s has the rule %s, which is not checked", m.name, rule)
			}
		}
	}
	for rule := range broken {
		if !used[rule] {
			t.Errorf("the rule %s is in no schema", rule)
		}
	}
}

// The examples in the schemas, and those of docs/messages.md, are valid by schema
// and service.
func TestExamplesAreValid(t *testing.T) {
	t.Parallel()
	var bodies [][]byte
	for _, m := range messages() {
		var s struct{ Examples []json.RawMessage }
		if err := json.Unmarshal(schema.Of(m.name), &s); err != nil || len(s.Examples) == 0 {
			t.Fatalf("%s has no example: %v", m.name, err)
		}
		for _, example := range s.Examples {
			bodies = append(bodies, example)
			sent, _ := envelope.Decode(example) // compared below
			switch sent.Payload.(type) {
			case timer.ScheduleTimer, timer.ScheduleTimers, timer.CancelTimer:
				if err := timer.ValidateTimestamp(sent.TimestampMS, time.Now(), 24*time.Hour); err != nil {
					t.Errorf("%s: the service refuses its example: %v", m.name, err)
				}
			}
		}
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "messages.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllSubmatch(page, -1)
	if len(blocks) < 8 {
		t.Fatalf("docs/messages.md has %d examples", len(blocks))
	}
	for _, block := range blocks {
		bodies = append(bodies, block[1])
	}
	for _, body := range bodies {
		if m, err := envelope.Decode(body); err != nil || m.Payload == nil {
			t.Errorf("Decode says %v of %s", err, body)
		}
		compare(t, body, func(schema, rule string) { t.Errorf("%s, %s: %s", schema, rule, body) })
	}
}

// FuzzSchemas compares schemas and service over whatever bodies.
func FuzzSchemas(f *testing.F) {
	g := newGenerator(1)
	for range 50 {
		f.Add(g.body())
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if hugeExponent.Match(body) {
			t.Skip("the validator writes 1e999999999 out in digits")
		}
		compare(t, body, func(string, string) {})
	})
}

// TestThousandsOfMessages compares schemas and service over messages that are
// valid, and that are broken in all ways of the generator: until each rule of each
// schema has made a difference. The short test ends before.
func TestThousandsOfMessages(t *testing.T) {
	t.Parallel()
	least, most := 10_000, 150_000
	if testing.Short() {
		least, most = 2_000, 2_000
	}
	waiting := make(map[string]bool) // rules that have made no difference yet
	for _, m := range messages() {
		for rule := range m.rules {
			waiting[m.name+" "+rule] = true
		}
	}
	g := newGenerator(7)
	n, valid, differences := 0, 0, 0
	for ; n < least || n < most && len(waiting) > 0; n++ {
		body := g.body()
		if m, err := envelope.Decode(body); err == nil && m.Payload != nil {
			valid++
		}
		compare(t, body, func(schema, rule string) {
			differences++
			delete(waiting, schema+" "+rule)
		})
	}
	t.Logf("%d messages, %d of them valid; %d break a rule that the schema can't express", n, valid, differences)
	if valid < n/5 || valid > n*4/5 {
		t.Errorf("%d of %d messages are valid", valid, n)
	}
	if !testing.Short() && len(waiting) > 0 {
		t.Errorf("no message broke these rules alone: %v", waiting)
	}
	for _, name := range g.unused() {
		t.Errorf("the mutation %s was never used", name)
	}
}
