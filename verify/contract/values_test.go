package contract_test

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/envelope/schema"
)

// TestEachValueReplaced replaces each value in the example of each schema, wherever
// it is in the message, by values of all kinds, lengths and characters.
func TestEachValueReplaced(t *testing.T) {
	t.Parallel()
	candidates := append(append(append([]string{"null"}, kinds...), texts...), numbers...)
	for _, s := range append(times, types...) {
		candidates = append(candidates, quote(s))
	}
	for c := ' '; c <= '~'; c++ {
		if !strings.ContainsRune("aA0", c) && (c < 'b' || c > 'z') && (c < 'B' || c > 'Z') && (c < '1' || c > '9') { // one of each will do
			candidates = append(candidates, quote("a"+string(c)+"b"), quote(string(c)))
		}
	}
	for _, n := range []int{63, 64, 65, 127, 128, 129} {
		candidates = append(candidates, quote(strings.Repeat("a", n)))
	}
	replaced, every := 0, 1
	if testing.Short() {
		every = 5
	}
	random := rand.IntN(every)
	for _, m := range messages() {
		var s struct{ Examples []json.RawMessage }
		if err := json.Unmarshal(schema.Of(m.name), &s); err != nil {
			t.Fatal(err)
		}
		example := string(s.Examples[0])
		values := make(map[string]bool)
		leaves(s.Examples[0], values)
		if len(values) < 5 {
			t.Fatalf("%s has an example with the values %v", m.name, values)
		}
		for _, value := range slices.Sorted(maps.Keys(values)) {
			for _, candidate := range candidates {
				if replaced++; replaced%every != random {
					continue
				}
				compare(t, []byte(strings.ReplaceAll(example, ": "+value, ": "+candidate)), func(string, string) {})
			}
		}
	}
	t.Logf("%d messages", replaced/every)
}

// leaves adds the values below a JSON value, as they are written.
func leaves(value json.RawMessage, to map[string]bool) {
	switch value[0] {
	case '{':
		for _, v := range members(value) {
			leaves(v, to)
		}
	case '[':
		var list []json.RawMessage
		_ = json.Unmarshal(value, &list) // it is well formed
		for _, v := range list {
			leaves(v, to)
		}
	default:
		to[string(value)] = true
	}
}
