// Package symptom is the table of things that can be wrong with a service. An entry says what
// an operator sees, the cause, and the remedy. The checks of the service and the doctor take their
// words from it, and docs/troubleshooting.md is generated from it, so that a person reads
// the same advice everywhere.
package symptom

import (
	"fmt"
	"strings"
)

//go:generate go test -run TestPage . -update

// A Symptom is one entry of the table.
type Symptom struct {
	ID    string // name of the alert; empty if it is none
	Part  string // the part that a check is about, such as "store"; empty if no check finds it
	Red   bool   // whether timers are late or commands are not taken, until it is repaired
	Text  string // of a check a format for [fmt.Sprintf]; of a message some of its words, in Markdown
	Cause string // in Markdown; checks have none, since their text says it
	Do    string // what to do; of a check a format for the same values
}

// Seen returns the text of a check with its values.
func (s Symptom) Seen(values ...any) string { return format(s.Text, values) }

// Advice returns what to do, as plain text, with the values of the text.
func (s Symptom) Advice(values ...any) string {
	return strings.ReplaceAll(format(s.Do, values), "`", "")
}

// format formats the values that a text has verbs for. A text that needs some of them
// names their positions, such as %[2]s.
func format(text string, values []any) string {
	if !strings.Contains(text, "%") {
		return text
	}
	return fmt.Sprintf(text, values...)
}
