package config

import (
	"fmt"
	"strings"
)

// A Mistake is one error in the configuration.
type Mistake struct {
	Key   string // the setting, as in the file; or the unknown name, as the user wrote it
	Value string // the value; "***" if it is secret, "" if it does not matter
	From  string // where it was given
	Fix   string // how to fix it
}

// Error returns all fields in one line.
func (m *Mistake) Error() string {
	switch {
	case m.Key == m.From: // Key is the name of a variable or a flag
		return fmt.Sprintf("%s: %s", m.Key, m.Fix)
	case m.Value == "":
		return fmt.Sprintf("%s (%s): %s", m.Key, m.From, m.Fix)
	case m.Value == hidden:
		return fmt.Sprintf("%s=%s (%s): %s", m.Key, m.Value, m.From, m.Fix)
	}
	return fmt.Sprintf("%s=%q (%s): %s", m.Key, clip(m.Value), m.From, m.Fix)
}

// clip shortens a value so that it fits a line.
func clip(s string) string {
	const limit = 80
	if len(s) <= limit {
		return s
	}
	return s[:limit] + "…"
}

// didYouMean suggests the candidate with the least edit distance to a name, and returns "" if
// none is close.
func didYouMean(name string, candidates []string) (hint string) {
	least := 1 + max(2, len(name)/4)
	for _, c := range candidates {
		if d := distance(strings.ToLower(name), strings.ToLower(c)); d < least {
			hint, least = "; did you mean "+c+"?", d
		}
	}
	return hint
}

// distance returns the Levenshtein distance of a and b, in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
