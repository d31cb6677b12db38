package interop_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/event-service-agent/timer-service/verify/crash"
	"github.com/event-service-agent/timer-service/verify/internal/harness"
)

// TestSentAsDocumented holds all that the service sends, events, receipts and dead
// letters, to the AsyncAPI document and the JSON Schemas that the same service serves.
func TestSentAsDocumented(t *testing.T) {
	t.Parallel()
	for _, broker := range []string{"nats", "kafka"} {
		for _, format := range []string{"envelope", "cloudevents"} {
			t.Run(broker+" "+format, func(t *testing.T) {
				t.Parallel()
				c, topics, address := serveDocumented(t, broker, "TIMER_EVENT_FORMAT="+format, "TIMER_RECEIPTS=true")
				d := readDocument(t, address, broker)
				for _, m := range makeAll(t, c, topics) {
					d.check(m)
				}
				suffix := map[string]string{"envelope": "", "cloudevents": "CloudEvent"}[format]
				want := []string{"DeadLetter", "DueTimeReached" + suffix, "TimerCanceled" + suffix, "TimerIgnored" + suffix, "TimerRejected" + suffix, "TimerScheduled" + suffix}
				if got := slices.Sorted(maps.Keys(d.seen)); !slices.Equal(got, want) {
					t.Errorf("the service sent %v, want %v", got, want)
				}
			})
		}
	}
}

// sentTopics are the topics that a service sends to.
type sentTopics struct{ events, receipts, deadLetters, noTenant string }

// serveDocumented runs the service on a broker, and returns the address of its API, too.
func serveDocumented(t *testing.T, broker string, settings ...string) (c brokerClient, topics sentTopics, address string) {
	t.Helper()
	dir := t.TempDir()
	if broker == "nats" {
		printed := serveIn(t, dir, append(settings, embedded...)...)
		return connectNATS(t, asOwner(t, dir, printed["ready"])), sentTopics{"svc.acme.serviceCall", "svc.acme.receipts", "svc.acme.dlq", "svc._.dlq"}, api(printed)
	}
	url := harness.StartBroker(t, crash.KafkaHere()).URL()
	printed := serveIn(t, dir, append(settings, "TIMER_BROKER=kafka", "TIMER_BROKER_URL="+url, "TIMER_HTTP_ADDR=127.0.0.1:0")...)
	return kafkaWire{strings.TrimPrefix(url, "kafka://")}, sentTopics{"service.events", "service.receipts", "service.events.acme.dlq", "service.events._.dlq"}, api(printed)
}

// makeAll sends commands of all kinds, and returns all that the service sends for them.
func makeAll(t *testing.T, c brokerClient, topics sentTopics) []wire {
	t.Helper()
	now := time.Now()
	command := func(kind string, after time.Duration, payload string) string {
		at := now.Add(after).UnixMilli()
		return fmt.Sprintf(`{"id":"c%d","type":%q,"tenantId":"acme","timestampMs":%d,"correlationId":"req-7","payload":{"tenantId":"acme",%s}}`, at, kind, at, payload)
	}
	timer := func(call string, in time.Duration) string {
		return fmt.Sprintf(`"serviceCallId":%q,"dueAt":%q`, call, now.Add(in).UTC().Format(time.RFC3339Nano))
	}
	trace := map[string]string{"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "tracestate": "a=b"}

	c.send(t, command("ScheduleTimer", 1*time.Millisecond, timer("order:1", 0)+`,"data":{"attempt":[1,null,"é"]}`), trace)
	c.send(t, command("ScheduleTimers", 2*time.Millisecond, `"timers":[{`+timer("order:2", 0)+`},{`+timer("order:3", 0)+`}]`), nil)
	c.send(t, fmt.Sprintf(`{"specversion":"1.0","id":"c-3","source":"/orders","type":"ScheduleTimer","time":%q,"data":{"tenantId":"acme",%s}}`, now.UTC().Format(time.RFC3339Nano), timer("order:4", 0)), nil)
	c.send(t, command("ScheduleTimer", 4*time.Millisecond, timer("later", time.Hour)), nil)
	c.send(t, command("ScheduleTimer", 5*time.Millisecond, timer("never", 100*365*24*time.Hour)), nil)
	c.send(t, command("ScheduleTimer", 6*time.Millisecond, `"serviceCallId":"no due time"`), nil)
	c.send(t, `{"id":"no tenant"`, nil)
	c.receive(t, topics.receipts, 7)
	c.send(t, command("CancelTimer", 8*time.Millisecond, `"serviceCallId":"later"`), nil)
	c.receive(t, topics.receipts, 8)
	c.send(t, command("ScheduleTimer", 7*time.Millisecond, timer("later", 2*time.Hour)), nil) // stale

	return slices.Concat(c.receive(t, topics.events, 4), c.receive(t, topics.receipts, 9), c.receive(t, topics.deadLetters, 2), c.receive(t, topics.noTenant, 1))
}

// document is an AsyncAPI document as a service serves it, with its schemas.
type document struct {
	*testing.T
	api      string // address
	server   string // name of the broker in the document
	channels map[string]documentChannel
	compiler *jsonschema.Compiler
	seen     map[string]bool // names of messages
}

type documentChannel struct {
	Address  string
	Messages map[string]reference
	Servers  []reference
}

type reference struct {
	To string `json:"$ref"`
}

func readDocument(t *testing.T, api, server string) *document {
	t.Helper()
	d := &document{T: t, api: api, server: server, compiler: jsonschema.NewCompiler(), seen: make(map[string]bool)}
	d.compiler.UseLoader(servedLoader{d})
	var parsed struct{ Channels map[string]documentChannel }
	harness.Must(t, json.Unmarshal(d.get("/asyncapi.json"), &parsed))
	d.channels = parsed.Channels
	return d
}

// servedLoader loads the sources of schemas.
type servedLoader struct{ *document }

func (s servedLoader) Load(url string) (any, error) {
	return jsonschema.UnmarshalJSON(strings.NewReader(string(s.get(strings.TrimPrefix(url, s.api)))))
}

func (d *document) get(path string) []byte {
	d.Helper()
	request, err := http.NewRequestWithContext(d.Context(), http.MethodGet, d.api+path, nil)
	harness.Must(d, err)
	response, err := http.DefaultClient.Do(request)
	harness.Must(d, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		d.Fatalf("GET %s: %s, %v", path, response.Status, err)
	}
	return body
}

// check holds a message to the document and to the schema of its type.
func (d *document) check(m wire) {
	d.Helper()
	name := m.headers["type"]
	if m.headers["content-type"] == "application/cloudevents+json" {
		name += "CloudEvent"
	}
	d.seen[name] = true
	message := d.channel(m).Messages[name].To
	if message != "#/components/messages/"+name {
		d.Errorf("no channel of %s has a message %s for the topic %s", d.server, name, m.topic)
		return
	}
	headers := make(map[string]any)
	for header, value := range m.headers {
		if !strings.HasPrefix(header, "Nats-") {
			headers[header] = value
		}
	}
	d.valid("/asyncapi.json"+message+"/headers", headers)
	if name == "DeadLetter" {
		return // its body is that of the original
	}
	body, err := jsonschema.UnmarshalJSON(strings.NewReader(m.body))
	harness.Must(d, err)
	for _, at := range []string{"/asyncapi.json" + message + "/payload", "/schemas/" + name} {
		d.valid(at, body)
		for field := range body.(map[string]any) {
			less := maps.Clone(body.(map[string]any))
			delete(less, field)
			if d.compile(at).Validate(less) == nil && !optional[field] {
				d.Errorf("%s is valid by %s without %s", m.body, at, field)
			}
		}
	}
}

// optional are the fields that a message need not have, of envelopes and of CloudEvents.
var optional = map[string]bool{
	"aggregateId": true, "causationId": true, "correlationId": true,
	"subject": true, "datacontenttype": true, "tenantid": true, "causationid": true, "correlationid": true,
	"traceparent": true, "tracestate": true,
}

// channel returns the channel of the topic of a message.
func (d *document) channel(m wire) documentChannel {
	for _, c := range d.channels {
		address := regexp.QuoteMeta(strings.ReplaceAll(c.Address, "{tenant}", m.headers["tenantId"]))
		if slices.Contains(c.Servers, reference{"#/servers/" + d.server}) && regexp.MustCompile("^"+address+"$").MatchString(m.topic) {
			return c
		}
	}
	return documentChannel{}
}

func (d *document) compile(at string) *jsonschema.Schema {
	d.Helper()
	schema, err := d.compiler.Compile(d.api + at)
	harness.Must(d, err)
	return schema
}

func (d *document) valid(at string, v any) {
	d.Helper()
	if err := d.compile(at).Validate(v); err != nil {
		d.Errorf("%v: %v", v, err)
	}
}
