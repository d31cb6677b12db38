package nats

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

func TestSubjectsThatMayBeSubscribedTo(t *testing.T) {
	t.Parallel()
	for subject, good := range map[string]bool{
		"timer.commands": true, "svc.*.timer": true, "svc.>": true, "*": true, "*.*.a": true,
		"_INBOXES.a": true, "_INBOX.a": false, "_INBOX_timer-service.a": false, "é": false,
		strings.Repeat("s", maxSubject): true, strings.Repeat("s", maxSubject+1): false,
		"": false, ">": false, ".>": false, "svc.>.a": false, "svc.a*": false, "svc.a>": false, "svc. .a": false, "svc..a": false, "$JS.>": false,
	} {
		if err := checkFilter(subject); (err == nil) != good {
			t.Errorf("%q: %v", subject, err)
		}
	}
}

func TestStreamIsMadeForTheRouting(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		routing broker.Routing
		want    []string
	}{
		{DefaultRouting(), []string{"timer.commands", "svc.>"}},
		{broker.Routing{Commands: "svc.{tenant}.timer", Events: "svc.{tenant}.serviceCall", DeadLetters: "svc.{tenant}.dlq", Wildcard: "*"}, []string{"svc.>"}},
		{broker.Routing{Commands: "c", Events: "e", DeadLetters: "d", Wildcard: "*"}, []string{"c", "e", "d"}},
		{broker.Routing{Commands: "c", Events: "{tenant}.e", DeadLetters: "d.{tenant}", Wildcard: "*"}, []string{"c", "*.e", "d.*"}},
		{broker.Routing{Commands: "svc.timer.c", Events: "svc.{tenant}.e", DeadLetters: "svc.d", Wildcard: "*"}, []string{"svc.>"}},
	} {
		got := subjects(tt.routing)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", tt.routing, diff)
		}
	}
}

func TestStreamsThatCouldLoseAreNamed(t *testing.T) {
	t.Parallel()
	fit := jetstream.StreamConfig{
		Name: "svc", Subjects: []string{"svc.>", "timer.commands"}, Retention: jetstream.LimitsPolicy,
		Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew, MaxBytes: 1 << 30, Duplicates: 2 * time.Minute,
		MaxMsgs: -1, MaxMsgsPerSubject: -1,
	}
	for _, tt := range []struct {
		says   string // part of the error; empty if it is fit
		change func(*jetstream.StreamConfig)
	}{
		{"", func(*jetstream.StreamConfig) {}},
		{"", func(c *jetstream.StreamConfig) { c.Subjects = []string{">"} }},
		{"", func(c *jetstream.StreamConfig) { c.Subjects = []string{"svc.*.*", "timer.*"} }},
		{"", func(c *jetstream.StreamConfig) { c.Discard, c.MaxBytes = jetstream.DiscardOld, -1 }},
		{"", func(c *jetstream.StreamConfig) { c.MaxAge = 24 * time.Hour }},
		{"", func(c *jetstream.StreamConfig) { c.MaxMsgSize = largestEvent }},
		{"max_msg_size", func(c *jetstream.StreamConfig) { c.MaxMsgSize = largestEvent - 1 }},
		{"max_msgs_per_subject", func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject, c.DiscardNewPerSubject = 10, true }},
		{"retention", func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy }},
		{"retention", func(c *jetstream.StreamConfig) { c.Retention = jetstream.InterestPolicy }},
		{"storage", func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }},
		{"discard", func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld }},
		{"discard", func(c *jetstream.StreamConfig) { c.Discard, c.MaxBytes, c.MaxMsgs = jetstream.DiscardOld, -1, 5 }},
		{"max_msgs_per_subject", func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 10 }},
		{"max_age", func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }},
		{"duplicate_window", func(c *jetstream.StreamConfig) { c.Duplicates = time.Minute }},
		{"allow_rollup_hdrs", func(c *jetstream.StreamConfig) { c.AllowRollup = true }},
		{"allow_msg_ttl", func(c *jetstream.StreamConfig) { c.AllowMsgTTL = true }},
		{"allow_msg_counter", func(c *jetstream.StreamConfig) { c.AllowMsgCounter = true }},
		{"persist_mode", func(c *jetstream.StreamConfig) { c.PersistMode = jetstream.AsyncPersistMode }},
		{"max_age", func(c *jetstream.StreamConfig) { c.MaxAge = 24*time.Hour - 1 }},
		{"allow_msg_schedules", func(c *jetstream.StreamConfig) { c.AllowMsgSchedules = true }},
		{"subject_transform", func(c *jetstream.StreamConfig) {
			c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: "a", Destination: "b"}
		}},
		{"mirror", func(c *jetstream.StreamConfig) { c.Mirror = &jetstream.StreamSource{Name: "other"} }},
		{"no_ack", func(c *jetstream.StreamConfig) { c.NoAck = true }},
		{"sealed", func(c *jetstream.StreamConfig) { c.Sealed = true }},
		{"do not cover svc.*.serviceCall", func(c *jetstream.StreamConfig) { c.Subjects = []string{"timer.commands", "svc.*.dlq"} }},
		{"do not cover timer.commands", func(c *jetstream.StreamConfig) { c.Subjects = []string{"svc.>"} }},
	} {
		c := fit
		tt.change(&c)
		err := verify(c, DefaultRouting(), defaultMinAge)
		if tt.says == "" && err != nil || tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
			t.Errorf("got %v, want %q", err, tt.says)
		}
	}
}

// TestSettingsThatNobodyKnowsAreRefused has the answer of a server that is newer than the
// client library.
func TestSettingsThatNobodyKnowsAreRefused(t *testing.T) {
	t.Parallel()
	b := New(Options{URL: "nats://127.0.0.1:1", Stream: "svc"}, slog.New(slog.DiscardHandler))
	for set, says := range map[string]string{
		``: "", `,"evict_unread":false,"quota":0,"max_streams":-1,"rules":{},"owner":"","list":[]`: "",
		`,"evict_unread":true`: "whether evict_unread is safe", `,"quota":5,"evict_unread":true`: "whether evict_unread, quota is safe",
	} {
		var info streamInfo
		answer := `{"config":{"name":"svc","subjects":[">"],"retention":"limits","storage":"file","discard":"new","duplicate_window":120000000000` + set + `},"state":{"messages":7}}`
		if err := json.Unmarshal([]byte(answer), &info); err != nil || info.State.Msgs != 7 {
			t.Fatalf("%v, %+v", err, info)
		}
		err := b.verify(&info)
		if says == "" && err != nil || says != "" && (!errors.Is(err, errUnfit) || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: got %v, want %q", set, err, says)
		}
	}
}

// TestSettingsOfTheClientLibraryAreReviewed fails when nats.go learns a setting of streams:
// find out whether it can lose messages, and add it to verify or only here.
func TestSettingsOfTheClientLibraryAreReviewed(t *testing.T) {
	t.Parallel()
	reviewed := strings.Fields(`name description subjects retention max_consumers max_msgs max_bytes discard discard_new_per_subject max_age
		max_msgs_per_subject max_msg_size storage num_replicas no_ack duplicate_window placement mirror sources sealed deny_delete deny_purge
		allow_rollup_hdrs compression first_seq subject_transform republish allow_direct mirror_direct consumer_limits metadata template_owner
		allow_msg_ttl subject_delete_marker_ttl allow_msg_counter allow_atomic allow_msg_schedules persist_mode allow_batched`)
	for field := range reflect.TypeFor[jetstream.StreamConfig]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if !slices.Contains(reviewed, name) {
			t.Errorf("nobody has reviewed the setting %s", name)
		}
	}
}

func TestEveryRoleAndTopicHasAConsumerOfItsOwn(t *testing.T) {
	t.Parallel()
	if got := ConsumerName("timer-service", "timer.commands"); got != "timer-service_timer-commands" {
		t.Errorf("the default is %s", got) // positions are kept under it: it must not change
	}
	seen := make(map[string][2]string)
	for _, role := range []string{"a", "a_b", "a-b", "a.b", "a b", "", "é", strings.Repeat("r", 300), strings.Repeat("r", 301)} {
		for _, topic := range []string{"b", "b.c", "b-c", "b_c", "b.*", "b.any", "b.>", "b.all", "c", "b_c.d", strings.Repeat("t", 300)} {
			name := ConsumerName(role, topic)
			if was, ok := seen[name]; ok {
				t.Errorf("%q and %q share the consumer %s", was, [2]string{role, topic}, name)
			}
			seen[name] = [2]string{role, topic}
			if len(name) > 200 || strings.ContainsAny(name, ".*> /\\\t\r\n") {
				t.Errorf("%s is no name of a consumer", name)
			}
		}
	}
}

// The header of watermill-nats is sent only if no other names the id.
func TestIDIsSentOnce(t *testing.T) {
	t.Parallel()
	for messageID, want := range map[string]natsgo.Header{
		"id-1":  {"Nats-Msg-Id": {"id-1"}, "messageId": {"id-1"}},
		"other": {"Nats-Msg-Id": {"id-1"}, "messageId": {"other"}, "_watermill_message_uuid": {"id-1"}},
	} {
		msg := message.NewMessage("id-1", nil)
		msg.Metadata["messageId"] = messageID
		out, err := marshal("svc.acme.serviceCall", msg)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, out.Header); diff != "" {
			t.Errorf("headers (-want +got):\n%s", diff)
		}
	}
}

func TestWhateverComesBecomesAMessage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		header natsgo.Header
		id     string // empty: a new one
		want   message.Metadata
	}{
		{"no headers", nil, "", nil},
		{"ours", natsgo.Header{"Nats-Msg-Id": {"a"}, "_watermill_message_uuid": {"b"}, "messageId": {"c"}}, "a", message.Metadata{"messageId": "c"}},
		{"another Watermill", natsgo.Header{"_watermill_message_uuid": {"b"}, "messageId": {"c"}}, "b", message.Metadata{"messageId": "c"}},
		{"a foreign producer", natsgo.Header{"messageId": {"c"}}, "c", message.Metadata{"messageId": "c"}},
		{"repeated", natsgo.Header{"a": {"1", "2"}, "none": {}, "Nats-Msg-Id": {"", "x"}}, "", message.Metadata{"a": "1"}},
		{"commands to the server", natsgo.Header{"Nats-Rollup": {"all"}, "nats-batch-id": {"x"}}, "", nil},
		{"what we say ourselves", natsgo.Header{broker.MetaTopic: {"x"}, broker.MetaPosition: {"1"}, broker.MetaDelivery: {"9"}, broker.MetaNoID: {"x"}}, "", nil},
		{"names as they stand", natsgo.Header{"TENANTID": {"x"}, "tenantId": {"y"}}, "", message.Metadata{"TENANTID": "x", "tenantId": "y"}},
	} {
		msg := unmarshal("svc.a.b", tt.header, []byte("\xff"))
		want := message.Metadata{broker.MetaTopic: "svc.a.b"}
		for name, value := range tt.want {
			want[name] = value
		}
		if tt.id == "" {
			want[broker.MetaNoID] = "true"
		}
		if diff := cmp.Diff(want, msg.Metadata); diff != "" {
			t.Errorf("%s: metadata (-want +got):\n%s", tt.name, diff)
		}
		if tt.id != "" && msg.UUID != tt.id || msg.UUID == "" || string(msg.Payload) != "\xff" {
			t.Errorf("%s: got %q %q", tt.name, msg.UUID, msg.Payload)
		}
	}
}

func TestResultsSayWhetherARetryHelps(t *testing.T) {
	t.Parallel()
	api := func(code jetstream.ErrorCode, text string) error {
		return &jetstream.APIError{ErrorCode: code, Description: text}
	}
	for _, tt := range []struct {
		err  error
		want error // nil: neither refused nor unavailable
	}{
		{api(codeMessageTooLarge, "message size exceeds maximum allowed"), broker.ErrRefused},
		{api(codeHeadersTooLarge, "header size exceeds maximum allowed of 64k"), broker.ErrRefused},
		{natsgo.ErrMaxPayload, broker.ErrRefused},
		{natsgo.ErrBadSubject, broker.ErrRefused},
		{fmt.Errorf("%w: Publish to \"svc.a\"", natsgo.ErrPermissionViolation), nil}, // it may be permitted later
		{api(codeStoreFailed, "maximum bytes exceeded"), broker.ErrUnavailable},
		{api(codeStoreFailed, "maximum messages exceeded"), broker.ErrUnavailable},
		{api(codeResources, "insufficient resources"), broker.ErrUnavailable},
		{natsgo.ErrConnectionClosed, broker.ErrUnavailable},
		{natsgo.ErrReconnectBufExceeded, broker.ErrUnavailable},
		{api(codeStoreFailed, "maximum messages per subject exceeded"), nil},
		{jetstream.ErrNoStreamResponse, nil},
		{jetstream.ErrInvalidJSAck, nil},
	} {
		got := result(tt.err)
		if !errors.Is(got, tt.err) || errors.Is(got, broker.ErrRefused) != (tt.want == broker.ErrRefused) || //nolint:errorlint // which of the two is meant
			errors.Is(got, broker.ErrUnavailable) != (tt.want == broker.ErrUnavailable) { //nolint:errorlint // as above
			t.Errorf("%v: %v, want one that wraps %v", tt.err, got, tt.want)
		}
	}
}

// A message whose headers make no sense comes all the same. A million
// of them must not fill the disk with log lines.
func TestBrokenHeadersFillNoLog(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	b := New(Options{}, slog.New(slog.NewTextHandler(&log, nil)))
	b.asyncError(nil, nil, natsgo.ErrBadHeaderMsg)
	if log.Len() > 0 {
		t.Errorf("logs %s", &log)
	}
	b.asyncError(nil, &natsgo.Subscription{Subject: "a"}, natsgo.ErrSlowConsumer)
	if !strings.Contains(log.String(), "slow consumer") || !strings.Contains(log.String(), "level=WARN") {
		t.Errorf("logs %q of a slow consumer", &log)
	}
}

// TestLargestEvent is smaller than what a stream must take.
func TestLargestEvent(t *testing.T) {
	t.Parallel()
	at := time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
	e := timer.DueTimeReached{
		Key:           timer.Key{TenantID: timer.TenantID(strings.Repeat("t", 64)), ServiceCallID: timer.ServiceCallID(strings.Repeat("c", 128))},
		CorrelationID: strings.Repeat("\\", 128), DueAt: at, ReachedAt: at, ExpiresAt: at, Data: `"` + strings.Repeat("x", 4094) + `"`,
		Trace: timer.Trace{Parent: strings.Repeat("0", 55), State: strings.Repeat("s", 512)},
	}
	size := 0
	for _, f := range []envelope.Format{{}, {CloudEvents: true, Source: strings.Repeat("s", 256)}} {
		msg := message.NewMessage(envelope.EventID(e), f.Reached(e))
		for name, value := range f.HeadersOf(e) {
			msg.Metadata.Set(name, value)
		}
		out, err := marshal(DefaultRouting().EventsOf(e.TenantID), msg)
		if err != nil {
			t.Fatal(err)
		}
		size = max(size, out.Size())
	}
	if size > largestEvent || size < largestEvent/2 {
		t.Errorf("it has %d bytes, and largestEvent is %d", size, largestEvent)
	}
}
