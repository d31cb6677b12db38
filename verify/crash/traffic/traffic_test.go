package traffic

import (
	"bytes"
	"reflect"
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

// TestLastTimersAreNew has no timer that a run waits for be one that may have fired before.
func TestLastTimersAreNew(t *testing.T) {
	t.Parallel()
	g, known := New(1, 20), make(map[history.Key]bool)
	for i := range 20_000 {
		c := g.Next(noon)
		if i%10 == 0 {
			if c = g.Last(noon, noon, i); known[c.Key] {
				t.Errorf("the key %v of the last command %d is known", c.Key, i)
			}
		}
		known[c.Key] = true
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
