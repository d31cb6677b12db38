package broker_test

import (
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

func TestKeyOfHeaders(t *testing.T) {
	t.Parallel()
	tests := []struct{ tenant, call, body, want string }{
		{"acme", "sc-1", "", "acme.sc-1"},
		{"acme", "sc-1", `{"tenantId":"other","aggregateId":"sc-2"}`, "acme.sc-1"},
		{"acme", "", `{"tenantId":"other","aggregateId":"sc-2"}`, "other.sc-2"},
		{"", "sc-1", `{"tenantId":"other","aggregateId":"sc-2"}`, "other.sc-2"},
		{"acme", "", "", ""},
		{"", "", "", ""},
	}
	for _, tt := range tests {
		msg := message.NewMessage("id", []byte(tt.body))
		msg.Metadata.Set(envelope.HeaderTenantID, tt.tenant)
		msg.Metadata.Set(envelope.HeaderServiceCallID, tt.call)
		if got := broker.Key(msg); got != tt.want {
			t.Errorf("%+v: got %q", tt, got)
		}
	}
}

func TestKeyOfTheBody(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"tenantId":"acme","aggregateId":"sc-1"}`:                                                                       "acme.sc-1",
		`{"aggregateId":"sc-1","tenantId":"acme"}`:                                                                       "acme.sc-1",
		`{"tenantId":"acme","payload":{"serviceCallId":"sc-1"}}`:                                                         "acme.sc-1",
		` { "payload" : { "x":[1,{"serviceCallId":"no"}], "serviceCallId" : "sc-1" , "y":1} , "z":2, "tenantId":"acme"}`: "acme.sc-1",
		`{"\u0074enantId":"\u0061cme","aggregateId":"sc-1"}`:                                                             "acme.sc-1",
		`{"tenantId":"acme","aggregateId":"sc-1" and then it breaks`:                                                     "acme.sc-1", // it is looked at no further
		`{"tenantId":"acme","serviceCallId":"sc-1"}`:                                                                     "",
		`{"tenantId":"acme","payload":{"aggregateId":"sc-1"}}`:                                                           "",
		`{"payload":{"tenantId":"acme","serviceCallId":"sc-1"}}`:                                                         "",
		`{"tenantId":"acme"}`:                           "",
		`{"tenantId":"acme","aggregateId":""}`:          "",
		`{"tenantId":1,"aggregateId":"sc-1"}`:           "",
		`{"tenantId":"acme","aggregateId":{"a":"b"}}`:   "",
		`{"tenantId":"acme","payload":"serviceCallId"}`: "",
		`{"tenantId":"acme" "aggregateId":"sc-1"}`:      "",
		`["tenantId","acme","aggregateId","sc-1"]`:      "",
		`"acme"`: "", `null`: "", ``: "", `{`: "", `{"`: "", `{"tenantId"`: "", `{"tenantId":`: "", "\xff": "", "\x00": "",
		strings.Repeat(`{"payload":`, 50_000): "",
		strings.Repeat(`[`, 60_000):           "",
		`{"tenantId":"acme","pad":"` + strings.Repeat("x", envelope.MaxBytes) + `","aggregateId":"sc-1"}`: "",
	} {
		if got := broker.Key(message.NewMessage("id", []byte(body))); got != want {
			t.Errorf("%.80s: got %q, want %q", body, got, want)
		}
	}
}

func TestKeyOfACloudEvent(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"specversion":"1.0","tenantid":"acme","subject":"sc-1"}`:                                                            "acme.sc-1",
		`{"subject":"sc-1","tenantid":"acme","specversion":"1.0"}`:                                                            "acme.sc-1",
		`{"specversion":"1.0","data":{"tenantId":"acme","serviceCallId":"sc-1"}}`:                                             "acme.sc-1",
		`{"data":{"x":{"tenantId":"no"},"serviceCallId":"sc-1","tenantId":"acme"},"specversion":"1.0"}`:                       "acme.sc-1",
		`{"specversion":"1.0","tenantid":"acme","subject":null,"data":{"serviceCallId":"sc-1"}}`:                              "acme.sc-1",
		`{"specversion":"1.0","subject":"sc-1","tenantid":null,"data":{"tenantId":"acme"}}`:                                   "acme.sc-1",
		`{"specversion":"1.0","payload":{"serviceCallId":"no"},"aggregateId":"no","tenantid":"acme","subject":"sc-1"}`:        "acme.sc-1",
		`{"specversion":"1.0","tenantid":"acme","subject":"sc-1" and then it breaks`:                                          "acme.sc-1",
		`{"tenantid":"no","subject":"no","data":{"tenantId":"no","serviceCallId":"no"}}`:                                      "", // an envelope
		`{"tenantid":"no","subject":"no","data":{"serviceCallId":"no"},"tenantId":"acme","payload":{"serviceCallId":"sc-1"}}`: "acme.sc-1",
		`{"specversion":"1.0","tenantid":"acme"}`:                                                                             "",
		`{"specversion":"1.0","data":[{"tenantId":"acme","serviceCallId":"sc-1"}]}`:                                           "",
		`{"specversion":"1.0","data":"x","subject":"sc-1"}`:                                                                   "",
		strings.Repeat(`{"data":`, 50_000):                                                                                    "",
	} {
		if got := broker.Key(message.NewMessage("id", []byte(body))); got != want {
			t.Errorf("%.120s: got %q, want %q", body, got, want)
		}
	}
}

// Whatever is a valid message has the same key by its body as by its headers.
func FuzzKey(f *testing.F) {
	f.Add([]byte(`{"id":"a","type":"ScheduleTimer","tenantId":"acme","timestampMs":1,"payload":{"tenantId":"acme","serviceCallId":"sc-1","dueAt":"2030-01-01T00:00:00Z"}}`))
	f.Add([]byte(`{"tenantId":"acme","aggregateId":"sc-1"`))
	f.Add([]byte("\xff{"))
	f.Add([]byte(`{"specversion":"1.0","id":"a","source":"/a","type":"CancelTimer","time":"2030-01-01T00:00:00Z","tenantid":"acme","subject":"sc-1","data":{"tenantId":"acme","serviceCallId":"sc-1"}}`))
	f.Add([]byte(`{"data":{"tenantId":"acme","serviceCallId":"sc-1"},"id":"a","source":"/a","type":"CancelTimer","aggregateId":"b","payload":{"serviceCallId":"c"},"time":"2030-01-01T00:00:00Z","specversion":"1.0"}`))
	f.Add([]byte(`{"tenantid":"b","subject":"b","data":{"tenantId":"b","serviceCallId":"b"},"id":"a","type":"CancelTimer","tenantId":"acme","timestampMs":1,"payload":{"tenantId":"acme","serviceCallId":"sc-1"}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		got := broker.Key(message.NewMessage("id", body))
		decoded, err := envelope.Decode(body)
		if err != nil {
			return
		}
		var key timer.Key
		switch p := decoded.Payload.(type) {
		case timer.ScheduleTimer:
			key = p.Key
		case timer.CancelTimer:
			key = p.Key
		case timer.DueTimeReached:
			key = p.Key
		default:
			return
		}
		if got != key.String() {
			t.Errorf("%s: got %q, want %q", body, got, key)
		}
	})
}

func BenchmarkKey(b *testing.B) {
	msg := message.NewMessage("id", []byte(`{"id":"0190b5a2-7c3e-7d4f-8a1b-2c3d4e5f6071","type":"ScheduleTimer","tenantId":"acme","timestampMs":1,"correlationId":"0190b5a2-7c3e-7d4f-8a1b-2c3d4e5f6071","payload":{"tenantId":"acme","serviceCallId":"sc-1","dueAt":"2030-01-01T00:00:00Z"}}`))
	for b.Loop() {
		if broker.Key(msg) == "" {
			b.Fatal("no key")
		}
	}
}
