package envelope_test

import (
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/envelope"
)

func TestOriginOfReadsWhatItCan(t *testing.T) {
	t.Parallel()
	const call = "order:42.pay"
	tests := []struct {
		name, body string
		want       envelope.Origin
	}{
		{"whole message", string(golden(t, "schedule_timer.json")), envelope.Origin{ID: goldenSchedule.CommandID, TenantID: "acme", CorrelationID: "req-7f3a", ServiceCallID: call}},
		{"CloudEvent", string(golden(t, "cloudevent_schedule_timer.json")), envelope.Origin{ID: goldenSchedule.CommandID, TenantID: "acme", CorrelationID: "req-7f3a", ServiceCallID: call}},
		{"many", string(golden(t, "schedule_timers.json")), envelope.Origin{ID: goldenSchedule.CommandID, TenantID: "acme", CorrelationID: "req-7f3a"}},
		{"invalid otherwise", `{"id":"1","correlationId":"c","type":7,"payload":{"serviceCallId":"x","dueAt":"soon"}}`, envelope.Origin{ID: "1", CorrelationID: "c", ServiceCallID: "x"}},
		{"cut after it", `{"id":"1","correlationId":"c","payl`, envelope.Origin{ID: "1", CorrelationID: "c"}},
		{"not UTF-8 elsewhere", "{\"a\":\"\xff\",\"id\":\"1\"}", envelope.Origin{ID: "1"}},
		{"a call in the aggregate only", `{"aggregateId":"x"}`, envelope.Origin{ServiceCallID: "x"}},
		{"twice", `{"id":"1","id":"2","correlationId":"c","correlationId":"c"}`, envelope.Origin{}},
		{"of another type", `{"id":1,"correlationId":null,"aggregateId":[]}`, envelope.Origin{}},
		{"not visible ASCII", `{"id":"a b","correlationId":"\u00e9","aggregateId":"a/b"}`, envelope.Origin{}},
		{"not UTF-8", "{\"id\":\"a\xff\"}", envelope.Origin{}},
		{"too long", `{"id":"` + strings.Repeat("a", 129) + `"}`, envelope.Origin{}},
		{"attributes of a CloudEvent in an envelope", `{"correlationid":"c","subject":"s","data":{"serviceCallId":"x"}}`, envelope.Origin{}},
		{"fields of an envelope in a CloudEvent", `{"specversion":"1.0","correlationId":"c","aggregateId":"s","payload":{"serviceCallId":"x"}}`, envelope.Origin{}},
		{"no JSON", `hello`, envelope.Origin{}},
		{"nothing", ``, envelope.Origin{}},
	}
	for _, test := range tests {
		if got := envelope.OriginOf([]byte(test.body)); got != test.want {
			t.Errorf("%s: got %+v, want %+v", test.name, got, test.want)
		}
	}
}
