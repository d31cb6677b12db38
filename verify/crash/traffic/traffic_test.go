package traffic

import (
	"bytes"
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/verify/crash/history"
)

var noon = time.Date(2030, 1, 31, 12, 0, 0, 123_456_789, time.UTC)

// made returns the first commands of a seed, one every 5 ms.
func made(seed uint64, n int) []history.Command {
	g := New(seed, 20)
	all := make([]history.Command, n)
	for i := range all {
		all[i] = g.Next(noon.Add(time.Duration(i) * 5 * time.Millisecond))
	}
	return all
}

func TestSameSeedMakesSameCommands(t *testing.T) {
	t.Parallel()
	once, again := made(1, 3000), made(1, 3000)
	for i := range once {
		if !reflect.DeepEqual(once[i], again[i]) {
			t.Fatalf("command %d differs (-once +again):\n%s", i, cmp.Diff(once[i], again[i]))
		}
	}
	if reflect.DeepEqual(made(1, 100), made(2, 100)) {
		t.Error("seeds 1 and 2 made the same")
	}
}

func TestMixesAllKinds(t *testing.T) {
	t.Parallel()
	seen := make(map[string]int)
	tenants := make(map[string]bool)
	for _, c := range made(3, 5000) {
		note, _, _ := strings.Cut(c.Note, ":")
		if c.Kind == history.Poison {
			seen["poison"]++
		}
		seen[string(c.Kind)+" "+note]++
		tenants[c.Tenant] = true
	}
	for _, kind := range []string{
		"schedule new", "schedule new, due in the past", "schedule to later", "schedule to sooner", "schedule to the same time",
		"schedule again", "schedule stale", "cancel before it is due", "cancel at any time", "cancel before it is asked for",
		"cancel again", "cancel stale", "poison", "foreign of another type",
	} {
		if seen[kind] < 5 {
			t.Errorf("%s: %d of 5000", kind, seen[kind])
		}
	}
	for _, p := range poisons {
		if seen["poison "+p.name] == 0 {
			t.Errorf("no poison of the kind %q in 5000", p.name)
		}
	}
	if len(tenants) != 20+1 { // poison has none
		t.Errorf("%d tenants, want 20", len(tenants)-1)
	}
}

// The pattern and limits are those of the wire contract.
func TestValidCommandsAreValid(t *testing.T) {
	t.Parallel()
	tenantForm := regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)
	callForm := regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,128}$`)
	idForm := regexp.MustCompile(`^[!-~]{1,128}$`)
	for _, c := range made(4, 5000) {
		if c.Kind != history.Schedule && c.Kind != history.Cancel {
			continue
		}
		var m struct {
			ID, Type, TenantID, AggregateID, CorrelationID string
			TimestampMS                                    int64
			Payload                                        struct{ TenantID, ServiceCallID, DueAt string }
		}
		if err := json.Unmarshal(c.Body, &m); err != nil {
			t.Fatalf("%v: %s", err, c.Body)
		}
		body := history.Command{Key: history.Key{Tenant: m.Payload.TenantID, Call: m.Payload.ServiceCallID}, Version: history.Version{TimestampMS: m.TimestampMS, ID: m.ID}}
		if body.Key != c.Key || body.Version != c.Version || m.TenantID != c.Tenant || m.AggregateID != "" && m.AggregateID != c.Call {
			t.Errorf("the body says %+v, the record %+v", m, c)
		}
		if !tenantForm.MatchString(c.Tenant) || !callForm.MatchString(c.Call) || !idForm.MatchString(c.ID) || c.TimestampMS <= 0 {
			t.Errorf("a key or version that is not allowed: %s", c.Body)
		}
		if m.CorrelationID != "" && m.CorrelationID != c.Correlation {
			t.Errorf("the body carries correlation %q, the record %q", m.CorrelationID, c.Correlation)
		}
		if c.Kind == history.Schedule {
			checkDueAt(t, m.Payload.DueAt, c.DueAt)
		}
	}
}

func checkDueAt(t *testing.T, text string, kept time.Time) {
	t.Helper()
	asked, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	if up := kept.Sub(asked); up < 0 || up >= time.Millisecond || kept.Nanosecond()%1e6 != 0 || kept.Location() != time.UTC {
		t.Errorf("%s is kept as %s", text, kept.Format(time.RFC3339Nano))
	}
}

func TestMessagesAreUnique(t *testing.T) {
	t.Parallel()
	dedupe, bodies := make(map[string]bool), make(map[string]history.Command)
	content := make(map[history.Key]map[history.Version][]byte)
	for _, c := range made(5, 5000) {
		if dedupe[c.DedupeID] {
			t.Errorf("%s is the dedupe id of two messages", c.DedupeID)
		}
		dedupe[c.DedupeID] = true
		if other, seen := bodies[string(c.Body)]; seen && !strings.HasPrefix(c.Note, "again: ") && c.Note != "empty" {
			t.Errorf("%s and %s have one body: %s", other.Note, c.Note, c.Body)
		}
		bodies[string(c.Body)] = c
		if c.Kind != history.Schedule && c.Kind != history.Cancel {
			continue
		}
		if content[c.Key] == nil {
			content[c.Key] = make(map[history.Version][]byte)
		}
		if other, seen := content[c.Key][c.Version]; seen && !bytes.Equal(other, c.Body) {
			t.Errorf("one version says %s and %s", other, c.Body)
		}
		content[c.Key][c.Version] = c.Body
	}
}

func TestPoisonNamesWhereItGoes(t *testing.T) {
	t.Parallel()
	for _, c := range made(6, 5000) {
		if c.Kind != history.Poison {
			continue
		}
		if len(c.DeadLetterTopics) == 0 || slices.Contains(c.DeadLetterTopics, history.DeadLettersTopic("")) {
			t.Errorf("%s goes to %q", c.Note, c.DeadLetterTopics)
		}
		if c.Key != (history.Key{}) {
			t.Errorf("%s has the key %s", c.Note, c.Key)
		}
	}
}

func TestStaleIsOlderAndNewerIsNewer(t *testing.T) {
	t.Parallel()
	newest := make(map[history.Key]history.Version)
	for _, c := range made(7, 5000) {
		if c.Kind != history.Schedule && c.Kind != history.Cancel || strings.HasPrefix(c.Note, "again: ") {
			continue
		}
		last, known := newest[c.Key]
		switch {
		case c.Note == "stale":
			if known && c.Version.Compare(last) >= 0 {
				t.Errorf("%s: stale %+v is not older than %+v", c.Key, c.Version, last)
			}
		case known && c.Version.Compare(last) <= 0 && c.Note != "new" && c.Note != "new, due in the past":
			t.Errorf("%s: %s %+v is not newer than %+v", c.Key, c.Note, c.Version, last)
		}
		if !known || c.Version.Compare(last) > 0 {
			newest[c.Key] = c.Version
		}
	}
}
