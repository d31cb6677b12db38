package envelope_test

import (
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

func TestTenantOfFindsTheOneTenantOfTheEnvelope(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", 1<<20)
	tests := []struct {
		name, body string
		want       timer.TenantID
	}{
		{"whole message", string(golden(t, "schedule_timer.json")), "acme"},
		{"another tenant in the payload", `{"payload":{"tenantId":"evil"},"tenantId":"acme"}`, "acme"},
		{"only in the payload", `{"payload":{"tenantId":"acme"}}`, timer.NoTenant},
		{"byte order mark", "\ufeff" + `{"tenantId":"acme"}`, "acme"},
		{"too deep", `{"a":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `,"tenantId":"acme"}`, "acme"},
		{"another field not UTF-8", "{\"a\":\"\xff\",\"tenantId\":\"acme\"}", "acme"},
		{"cut after it", `{"tenantId":"acme","payl`, "acme"},
		{"1 MiB before it", `{"pad":"` + big + `","tenantId":"acme"}`, timer.NoTenant},
		{"cut within it", `{"tenantId":"acme`, timer.NoTenant},
		{"garbage before it", `{"a":b,"tenantId":"acme"}`, timer.NoTenant},
		{"twice", `{"tenantId":"acme","tenantId":"evil"}`, timer.NoTenant},
		{"twice, once escaped", `{"tenantId":"acme","tenant\u0049d":"evil"}`, timer.NoTenant},
		{"malformed, then valid", `{"tenantId":"_","tenantId":"acme"}`, timer.NoTenant},
		{"null", `{"tenantId":null}`, timer.NoTenant},
		{"empty", `{"tenantId":""}`, timer.NoTenant},
		{"tenant of dead letters", `{"tenantId":"_"}`, timer.NoTenant},
		{"another case", `{"tenantID":"acme"}`, timer.NoTenant},
		{"array", `[{"tenantId":"acme"}]`, timer.NoTenant},
		{"nothing", ``, timer.NoTenant},
		{"CloudEvent", string(golden(t, "cloudevent_schedule_timer.json")), "acme"},
		{"CloudEvent without tenantid", `{"data":{"tenantId":"acme"},"specversion":"1.0"`, "acme"},
		{"CloudEvent with null for it", `{"specversion":"1.0","tenantid":null,"data":{"tenantId":"acme"}}`, "acme"},
		{"CloudEvent with another in its data", `{"specversion":"1.0","data":{"tenantId":"evil"},"tenantid":"acme"`, "acme"},
		{"CloudEvent with that of an envelope", `{"specversion":"0.3","tenantId":"evil","tenantid":"acme"}`, "acme"},
		{"CloudEvent with two", `{"specversion":"1.0","tenantid":"acme","tenantid":"evil"}`, timer.NoTenant},
		{"CloudEvent with a malformed one", `{"specversion":"1.0","tenantid":"_","data":{"tenantId":"evil"}}`, timer.NoTenant},
		{"CloudEvent with data of no object", `{"specversion":"1.0","data":[{"tenantId":"acme"}]}`, timer.NoTenant},
		{"keys of a CloudEvent in an envelope", `{"tenantid":"evil","data":{"tenantId":"evil"},"tenantId":"acme"}`, "acme"},
		{"number as key", `{1:2,"tenantId":"acme"}`, timer.NoTenant},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := envelope.TenantOf([]byte(test.body)); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

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
