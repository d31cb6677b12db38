package envelope_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// TestHeadersComeBack encodes headers of every kind; the standard library and
// we must read the same.
func TestHeadersComeBack(t *testing.T) {
	t.Parallel()
	full := goldenReached
	full.Trace = timer.Trace{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", State: "vendor=a\"b\\c"}
	bare := goldenReached
	bare.CorrelationID = ""
	odd := goldenReached
	odd.ServiceCallID, odd.CorrelationID = "a:b", "\u00e9\u2028"
	for _, e := range []timer.DueTimeReached{goldenReached, full, bare, odd} {
		want := envelope.HeadersOf(e)
		text := envelope.EncodeHeaders(want)
		var standard map[string]string
		if err := json.Unmarshal(text, &standard); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if diff := cmp.Diff(want, standard); diff != "" {
			t.Errorf("by the standard library (-want +got):\n%s", diff)
		}
		got, err := envelope.DecodeHeaders(string(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}
