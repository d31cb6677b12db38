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
		{"another key twice", `{"id":1,"id":2,"tenantId":"acme"}`, "acme"},
		{"escaped", `{"tenant\u0049d":"\u0061cme"}`, "acme"},
		{"byte order mark", "\ufeff" + `{"tenantId":"acme"}`, "acme"},
		{"too deep", `{"a":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `,"tenantId":"acme"}`, "acme"},
		{"another field not UTF-8", "{\"a\":\"\xff\",\"tenantId\":\"acme\"}", "acme"},
		{"cut after it", `{"tenantId":"acme","payl`, "acme"},
		{"garbage after it", `{"tenantId":"acme" garbage`, "acme"},
		{"trailing data", `{"tenantId":"acme"}{"tenantId":"evil"}`, "acme"},
		{"1 MiB after it", `{"tenantId":"acme","pad":"` + big, "acme"},
		{"1 MiB before it", `{"pad":"` + big + `","tenantId":"acme"}`, timer.NoTenant},
		{"cut within it", `{"tenantId":"acme`, timer.NoTenant},
		{"garbage before it", `{"a":b,"tenantId":"acme"}`, timer.NoTenant},
		{"twice", `{"tenantId":"acme","tenantId":"evil"}`, timer.NoTenant},
		{"the same twice", `{"tenantId":"acme","tenantId":"acme"}`, timer.NoTenant},
		{"twice, once escaped", `{"tenantId":"acme","tenant\u0049d":"evil"}`, timer.NoTenant},
		{"valid, then a number", `{"tenantId":"acme","tenantId":7}`, timer.NoTenant},
		{"malformed, then valid", `{"tenantId":"_","tenantId":"acme"}`, timer.NoTenant},
		{"null", `{"tenantId":null}`, timer.NoTenant},
		{"number", `{"tenantId":7}`, timer.NoTenant},
		{"object", `{"tenantId":{"tenantId":"acme"}}`, timer.NoTenant},
		{"empty", `{"tenantId":""}`, timer.NoTenant},
		{"malformed", `{"tenantId":"a.b"}`, timer.NoTenant},
		{"tenant of dead letters", `{"tenantId":"_"}`, timer.NoTenant},
		{"not UTF-8", "{\"tenantId\":\"acme\xff\"}", timer.NoTenant},
		{"too long", `{"tenantId":"` + strings.Repeat("a", 65) + `"}`, timer.NoTenant},
		{"another case", `{"tenantID":"acme"}`, timer.NoTenant},
		{"array", `[{"tenantId":"acme"}]`, timer.NoTenant},
		{"string", `"tenantId"`, timer.NoTenant},
		{"nothing", ``, timer.NoTenant},
		{"CloudEvent", string(golden(t, "cloudevent_schedule_timer.json")), "acme"},
		{"CloudEvent without tenantid", `{"data":{"tenantId":"acme"},"specversion":"1.0"`, "acme"},
		{"CloudEvent with null for it", `{"specversion":"1.0","tenantid":null,"data":{"tenantId":"acme"}}`, "acme"},
		{"CloudEvent with another in its data", `{"specversion":"1.0","data":{"tenantId":"evil"},"tenantid":"acme"`, "acme"},
		{"CloudEvent with that of an envelope", `{"specversion":"0.3","tenantId":"evil","tenantid":"acme"}`, "acme"},
		{"CloudEvent with only that", `{"specversion":"1.0","tenantId":"evil"}`, timer.NoTenant},
		{"CloudEvent with two", `{"specversion":"1.0","tenantid":"acme","tenantid":"evil"}`, timer.NoTenant},
		{"CloudEvent with a malformed one", `{"specversion":"1.0","tenantid":"_","data":{"tenantId":"evil"}}`, timer.NoTenant},
		{"CloudEvent with two data", `{"specversion":"1.0","data":{"tenantId":"acme"},"data":{"tenantId":"evil"}}`, timer.NoTenant},
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

// A hostile body costs no more than a large one: time grows with its length, not
// with the square of it, and what is decoded after it is not touched.
func TestTenantOfLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	for _, hostile := range []string{
		"{" + strings.Repeat(`"a":1,"tenantId":"evil",`, 1<<14),
		strings.Repeat(`{"tenantId":`, 1<<14),
		`{"tenantId":"` + strings.Repeat(`\u0061`, 1<<17) + `"}`,
		`{"a":"` + strings.Repeat("\xff", 1<<20),
		strings.Repeat("[", 1<<20),
	} {
		envelope.TenantOf([]byte(hostile))
		if _, err := envelope.Decode([]byte("{\"type\":\"X\",\"a\":\"\xff\"}")); err == nil {
			t.Error("Decode takes what is not UTF-8 after TenantOf")
		}
		if _, err := envelope.Decode([]byte(`{"type":"X","a":1,"a":2}`)); err == nil {
			t.Error("Decode takes a key twice after TenantOf")
		}
	}
}
