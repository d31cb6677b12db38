package interop_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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
	"github.com/event-service-agent/timer-service/verify/internal/harness"
)

// A messageSchema is a schema of bodies, with the reasons of the rules that it lists because
// no schema can express them.
type messageSchema struct {
	name      string
	validator *jsonschema.Schema
	example   string
	reasons   []timer.Reason
}

// listedRule is a line in the comment of a schema: the name of a rule, and reasons.
var listedRule = regexp.MustCompile(`(?m)^[a-z]+ \[([a-z0-9_ ]+)\]: .`)

// messageSchemas returns the schemas of all messages.
var messageSchemas = sync.OnceValue(func() (all []messageSchema) {
	for _, name := range schema.Names() {
		if strings.HasSuffix(name, "Headers") {
			continue
		}
		var s struct {
			Comment  string `json:"$comment"`
			Examples []json.RawMessage
		}
		if err := json.Unmarshal(schema.Of(name), &s); err != nil {
			panic(err)
		}
		m := messageSchema{name: name, validator: compileSchema(name, schema.Of(name)), example: string(s.Examples[0])}
		for _, rule := range listedRule.FindAllStringSubmatch(s.Comment, -1) {
			for reason := range strings.FieldsSeq(rule[1]) {
				m.reasons = append(m.reasons, timer.Reason(reason))
			}
		}
		all = append(all, m)
	}
	return all
})

func compileSchema(name string, text []byte) *jsonschema.Schema {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		panic(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(name, document); err != nil {
		panic(err)
	}
	return c.MustCompile(name)
}

// badFields are the fields that a schema takes and the decoder calls a bad field: how a
// number is written, URIs, media types, and two items of one name.
var badFields = regexp.MustCompile(`timestampMs|source|datacontenttype|serviceCallIds?.*(twice|again)|timers`)

// agree checks one body. A schema takes what the decoder takes as its type, and what the
// decoder refuses only for a reason of its list. No two schemas take the same body.
func agree(t *testing.T, body []byte) {
	t.Helper()
	var taken []messageSchema
	if document, err := jsonschema.UnmarshalJSON(bytes.NewReader(body)); err == nil {
		for _, m := range messageSchemas() {
			if m.validator.Validate(document) == nil {
				taken = append(taken, m)
			}
		}
	}
	decoded, err := envelope.Decode(body)
	invalid, refused := errors.AsType[*timer.InvalidError](err)
	switch {
	case refused && len(taken) == 1:
		if !slices.Contains(taken[0].reasons, invalid.Reason) || invalid.Reason == timer.ReasonBadField && !badFields.MatchString(invalid.Detail) {
			t.Errorf("%s takes what the decoder refuses (%v): %s", taken[0].name, err, body)
		}
	case err != nil:
		if len(taken) > 0 || !refused {
			t.Errorf("%d schemas take it, the decoder says %v: %s", len(taken), err, body)
		}
	case decoded.Payload != nil && decoded.TimestampMS >= time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli(): // the handlers refuse older commands
		want := decoded.Type
		if bytes.Contains(body, []byte("specversion")) {
			want += "CloudEvent"
		}
		if len(taken) != 1 || taken[0].name != want {
			t.Errorf("the decoder takes it as %s, not so %d schemas: %s", want, len(taken), body)
		}
	}
}

// TestSchemasAgreeWithTheDecoder changes the example of each schema in one place at a time.
func TestSchemasAgreeWithTheDecoder(t *testing.T) {
	t.Parallel()
	values := []string{
		"null", `""`, "7", "0", "-1", "1.5", "true", "[]", "{}", `["a"]`, `{"a":"b"}`, `{"a":1,"a":1}`,
		`" a"`, `"a\n"`, `"a\u0000"`, `"é"`, `"\ud83d\ude00"`, `"\ud800"`, "\"\xff\"", `"_"`, `"-a"`, `"a b"`, `"."`, `".."`, `"\x41"`,
		"946684799999", "946684800000", "946684800000.0", "1893456E6", "9007199254740991", "9007199254740992", "01", "1893456000000000",
		strings.Repeat("[", 11) + strings.Repeat("]", 11), strings.Repeat("[", 17) + strings.Repeat("]", 17),
		`"2030-02-30T00:00:00Z"`, `"2028-02-29T00:00:00Z"`, `"2030-13-01T00:00:00Z"`, `"2030-01-00T00:00:00Z"`,
		`"1999-12-31T23:59:59.999Z"`, `"2000-01-01T00:00:00+00:01"`, `"2200-12-31T23:59:59.999Z"`, `"2200-12-31T23:59:59.9991Z"`, `"2201-01-01T00:00:00+00:01"`,
		`"2030-01-01T00:00:00"`, `"2030-01-01t00:00:00z"`, `"2030-01-01 00:00:00Z"`, `"2030-01-01T24:00:00Z"`, `"2030-01-01T23:59:60Z"`, `"2030-01-01T00:00:00,5Z"`,
		`"2030-01-01T00:00Z"`, `"2030-01-01T00:00:00+14:00"`, `"2030-01-01T00:00:00+14:01"`, `"2030-01-01T00:00:00+0100"`, `"2030-01-01T00:00:00-00:00"`, `"2030-01-01T00:00:00.1234567890Z"`,
		`"%zz"`, `"http://[::1"`, `"//host/path"`, `"text/json"`, `"application/json; charset=utf-8"`, `"application/json;a"`, `"application/xml"`, `"application/vnd.a.b+json"`,
		`"DueTimeReached"`, `"TimerPaused"`, `"scheduleTimer"`,
	}
	for c := ' '; c <= '~'; c++ {
		quoted, _ := json.Marshal("a" + string(c) + "b") // a string can always be written
		values = append(values, string(quoted))
	}
	for _, n := range []int{64, 65, 128, 129, 4094, 4095, 65_600} {
		values = append(values, `"`+strings.Repeat("a", n)+`"`)
	}
	member := regexp.MustCompile(`"(\w+)": ?("[^"]*"|[0-9]+)`)
	for _, m := range messageSchemas() {
		agree(t, []byte(m.example))
		found := member.FindAllStringSubmatchIndex(m.example, -1)
		if len(found) < 5 {
			t.Errorf("%s has an example with %d values", m.name, len(found))
		}
		for _, at := range found {
			name, whole := m.example[at[2]:at[3]], m.example[at[0]:at[1]]
			changed := []string{
				whole + "," + whole, fmt.Sprintf(`"unknown":1,%s`, whole), strings.Replace(whole, name, strings.ToUpper(name), 1),
				fmt.Sprintf(`"x%s":1`, name), fmt.Sprintf(`"unknown":{"a":[{"b":1,"b":2}]},%s`, whole),
			}
			for _, value := range values {
				changed = append(changed, fmt.Sprintf(`"%s":%s`, name, value))
			}
			for _, with := range changed {
				agree(t, []byte(m.example[:at[0]]+with+m.example[at[1]:]))
			}
		}
	}
}

// TestExamplesOfTheSchemasAreTaken by the service: they are of a time that is past.
func TestExamplesOfTheSchemasAreTaken(t *testing.T) {
	t.Parallel()
	for _, m := range messageSchemas() {
		sent, err := envelope.Decode([]byte(m.example))
		if err != nil || sent.Payload == nil {
			t.Errorf("%s: %v", m.name, err)
		}
		if strings.HasPrefix(m.name, "Schedule") || strings.HasPrefix(m.name, "Cancel") {
			if err := timer.ValidateTimestamp(sent.TimestampMS, time.Now(), 24*time.Hour); err != nil {
				t.Errorf("%s: %v", m.name, err)
			}
		}
	}
}

// TestAsyncAPIDocument holds the document to the schema of AsyncAPI 3.0.0, which comes from
// npm, and compiles the schemas in it.
func TestAsyncAPIDocument(t *testing.T) {
	t.Parallel()
	specification, err := os.ReadFile(filepath.Join(folder(t, "."), installed("@asyncapi/specs/schemas/3.0.0-without-$id.json")))
	harness.Must(t, err)
	validator := compileSchema("asyncapi-3.0.0", specification)
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema.AsyncAPI()))
	harness.Must(t, err)
	if err := validator.Validate(document); err != nil {
		t.Errorf("%#v", err)
	}
	channels := document.(map[string]any)["channels"].(map[string]any)
	channels["natsEvents"].(map[string]any)["queue"] = "x"
	if validator.Validate(document) == nil {
		t.Error("a channel with a key that is none is valid")
	}
}
