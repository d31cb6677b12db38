package judge

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Kinds of lines.
const (
	Begin   = "begin"
	Sent    = "sent"
	Acked   = "acked"
	Applied = "applied"
	Refused = "refused"
	Seen    = "seen"
	Fault   = "fault"
	Healed  = "healed"
	End     = "end"
)

// What a command does.
const (
	Schedule = "schedule"
	Move     = "move"
	Cancel   = "cancel"
)

// A Line is one of a history.
type Line struct {
	Kind    string `json:"kind"`
	Wall    int64  `json:"wall"`
	Mono    int64  `json:"mono"`
	Format  int    `json:"format,omitzero"`
	Service string `json:"service,omitzero"`
	Op      int    `json:"op,omitzero"`
	Do      string `json:"do,omitzero"`
	Key     string `json:"key,omitzero"`
	Due     int64  `json:"due,omitzero"`
	Pending bool   `json:"pending,omitzero"`
	ID      string `json:"id,omitzero"`
	N       int    `json:"n,omitzero"`
	What    string `json:"what,omitzero"`
}

// required are the fields of each kind in addition to those of all.
var required = map[string][]string{
	Begin: {"format", "service"}, Sent: {"op", "do", "key"}, Acked: {"op"}, Applied: {"op"}, Refused: {"op"},
	Seen: {"key", "op", "id"}, Fault: {"n", "what"}, Healed: {"n"}, End: nil,
}

// read calls each with every line, and its number.
func read(in io.Reader, each func(number int, l Line) error) error {
	lines := bufio.NewReader(in)
	for number := 1; ; number++ {
		text, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(text) == 0 {
			return nil
		}
		var l Line
		if err == nil {
			l, err = parse(text)
		}
		if err == nil {
			err = each(number, l)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
	}
}

func parse(text []byte) (l Line, err error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return l, err
	}
	if err := json.Unmarshal(text, &l); err != nil {
		return l, err
	}
	names, known := required[l.Kind]
	if !known {
		return l, fmt.Errorf("the kind %q is unknown", l.Kind)
	}
	if l.Kind == Sent && l.Do != Cancel {
		names = append(names[:len(names):len(names)], "due")
	}
	for _, name := range append(names[:len(names):len(names)], "wall", "mono") {
		if value, found := fields[name]; !found || string(value) == "null" {
			return l, fmt.Errorf("the field %s is missing", name)
		}
	}
	if _, found := fields["pending"]; found && !l.Pending {
		return l, errors.New("pending is not true")
	}
	return l, nil
}
