package cloudevents_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/event-service-agent/timer-service/envelope"
)

// FuzzBothReadTheSame gives bodies to both decoders. What both take says the
// same to both; ours may refuse more, and ignores attributes of others that the
// SDK refuses.
func FuzzBothReadTheSame(f *testing.F) {
	names, err := filepath.Glob("../../envelope/testdata/cloudevent_*.json")
	if err != nil || len(names) < 3 {
		f.Fatalf("found golden files %v, %v", names, err)
	}
	for _, name := range names {
		body, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		ours, err := envelope.Decode(body)
		if err != nil || ours.Payload == nil {
			return
		}
		var theirs event.Event
		if json.Unmarshal(body, &theirs) != nil {
			return
		}
		if err := theirs.Validate(); err != nil {
			t.Fatalf("we take what is invalid: %v\n%s", err, body)
		}
		if theirs.ID() != ours.ID || theirs.Type() != ours.Type || theirs.Subject() != ours.AggregateID || theirs.Time().UnixMilli() != ours.TimestampMS {
			t.Fatalf("the SDK reads %v\nwe read %+v\n%s", theirs, ours, body)
		}
		var data map[string]any
		if err := theirs.DataAs(&data); err != nil {
			t.Fatalf("data: %v\n%s", err, body)
		}
		if data["tenantId"] != string(ours.TenantID) {
			t.Fatalf("the SDK reads the tenant %v, we %s\n%s", data["tenantId"], ours.TenantID, body)
		}
	})
}
