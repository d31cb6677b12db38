// Package judge judges the history of any timer service by the rules of docs/history.md. It
// imports the standard library alone, and shares no code with judge.py.
package judge

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

// Limits of the rules, in microseconds.
const (
	late = 1_000_000 // events that come later are late
	skew = 100_000   // the most that the two clocks may drift apart
)

// A Verdict is the result of [Judge].
type Verdict struct {
	Void       bool  `json:"void"`
	Commands   int   `json:"commands"`
	Taken      int   `json:"taken"`
	Refused    int   `json:"refused"`
	Doubtful   int   `json:"doubtful"`
	Events     int   `json:"events"`
	Repeated   int   `json:"repeated"`
	Both       int   `json:"both"`
	Lost       []int `json:"lost"`
	Early      []int `json:"early"`
	Doubled    []int `json:"doubled"`
	Superseded []int `json:"superseded"`
	Canceled   []int `json:"canceled"`
	Invented   []int `json:"invented"`
	LateP50    int64 `json:"late_p50"`
	LateP99    int64 `json:"late_p99"`
	LateMax    int64 `json:"late_max"`
	Faults     int   `json:"faults"`
	Stray      int   `json:"stray"`
	CleanP50   int64 `json:"clean_p50"`
	CleanMax   int64 `json:"clean_max"`
}

// Clean reports whether no rule was broken.
func (v Verdict) Clean() bool {
	return !v.Void && len(v.Lost)+len(v.Early)+len(v.Doubled)+len(v.Superseded)+len(v.Canceled)+len(v.Invented) == 0
}

// A command is the knowledge about a command of the history. A time is a wall time, 0 if there is none.
type command struct {
	Line

	number                   int // of its line
	acked, applied, refusing int64
	pending                  bool
	events                   []Line
	wrong                    bool // superseded or canceled, and fired
	early                    bool
}

func (c *command) refused() bool { return c.refusing != 0 && c.applied == 0 }
func (c *command) taken() bool   { return !c.refused() && c.takenFrom() != 0 }

func (c *command) takenFrom() int64 { return cmp.Or(c.acked, c.applied) }

// inForceBefore reports whether the command is known to be in force before a time.
func (c *command) inForceBefore(t int64) bool {
	acked := c.acked != 0 && !c.pending && c.acked < t
	return !c.refused() && (acked || c.applied != 0 && c.applied < t)
}

// A fault is one, and the last event that was late by it.
type fault struct {
	from, healed, last int64
}

// history is all lines of a file, by what they are about.
type history struct {
	commands map[int]*command
	keys     map[string][]*command
	faults   []*fault
	byNumber map[int]*fault
	seen     []Line
	places   []int // of seen, in the file
	last     Line
	least    int64 // wall less mono
	greatest int64
}

// Judge reads a history and applies the rules. It returns an error if the history is not
// as the page describes it.
func Judge(in io.Reader) (Verdict, error) {
	h := history{commands: make(map[int]*command), keys: make(map[string][]*command), byNumber: make(map[int]*fault)}
	if err := read(in, h.add); err != nil {
		return Verdict{}, err
	}
	if h.last.Kind != End {
		return Verdict{}, errors.New("the last line is no end")
	}
	v := Verdict{
		Void: h.greatest-h.least > skew, Commands: len(h.commands), Faults: len(h.faults),
		Lost: []int{}, Early: []int{}, Doubled: []int{}, Superseded: []int{}, Canceled: []int{}, Invented: []int{},
	}
	h.assign(&v)
	for _, commands := range h.keys {
		slices.SortFunc(commands, func(a, b *command) int { return cmp.Compare(a.Op, b.Op) })
		judgeKey(&v, commands, h.last.Wall)
	}
	h.measure(&v)
	for _, list := range [][]int{v.Lost, v.Early, v.Doubled, v.Superseded, v.Canceled} {
		slices.Sort(list)
	}
	return v, nil
}

// add takes the next line.
func (h *history) add(number int, l Line) error {
	drift := l.Wall - l.Mono
	switch {
	case (number == 1) != (l.Kind == Begin) || h.last.Kind == End:
		return errors.New("begin is the first line, and end the last")
	case number == 1:
		h.least, h.greatest = drift, drift
		if l.Format != 1 {
			return fmt.Errorf("the format is %d", l.Format)
		}
	case l.Mono < h.last.Mono:
		return errors.New("mono falls")
	}
	h.least, h.greatest, h.last = min(h.least, drift), max(h.greatest, drift), l
	switch l.Kind {
	case Sent:
		known := l.Do == Schedule || l.Do == Move || l.Do == Cancel
		if h.commands[l.Op] != nil || l.Op < 1 || !known {
			return fmt.Errorf("op %d is not unique, not above 0, or does not %q", l.Op, l.Do)
		}
		c := &command{Line: l, number: number}
		h.commands[l.Op], h.keys[l.Key] = c, append(h.keys[l.Key], c)
	case Acked, Applied, Refused:
		return h.answer(l)
	case Seen:
		h.seen, h.places = append(h.seen, l), append(h.places, number)
	case Fault:
		if h.byNumber[l.N] != nil || l.N < 1 {
			return fmt.Errorf("fault %d is not unique, or not above 0", l.N)
		}
		f := &fault{from: l.Wall}
		h.faults, h.byNumber[l.N] = append(h.faults, f), f
	case Healed:
		f := h.byNumber[l.N]
		if f == nil || f.healed != 0 {
			return fmt.Errorf("fault %d did not begin, or was healed", l.N)
		}
		f.healed = l.Wall
	}
	return nil
}

func (h *history) answer(l Line) error {
	c := h.commands[l.Op]
	if c == nil {
		return fmt.Errorf("op %d was not sent", l.Op)
	}
	at := map[string]*int64{Acked: &c.acked, Applied: &c.applied, Refused: &c.refusing}[l.Kind]
	if *at != 0 {
		return fmt.Errorf("op %d is %s twice", l.Op, l.Kind)
	}
	*at, c.pending = l.Wall, c.pending || l.Pending
	return nil
}

// assign gives each event to its command.
func (h *history) assign(v *Verdict) {
	for i, l := range h.seen {
		c := h.commands[l.Op]
		if c == nil || c.Key != l.Key || c.Do == Cancel || c.number > h.places[i] || c.refused() {
			v.Invented = append(v.Invented, h.places[i])
			continue
		}
		v.Events++
		if slices.ContainsFunc(c.events, func(e Line) bool { return e.ID == l.ID }) {
			v.Repeated++
		}
		c.events = append(c.events, l)
	}
}

// judgeKey applies the rules to the commands of a key, in their order.
func judgeKey(v *Verdict, commands []*command, end int64) {
	right := 0 // commands that fired rightly
	var newest *command
	doubtful := false // a doubtful cancel is newer
	for i, c := range commands {
		switch {
		case c.taken():
			v.Taken++
			newest, doubtful = c, false
		case c.refused():
			v.Refused++
		default:
			v.Doubtful++
			doubtful = doubtful || c.Do == Cancel
		}
		if len(c.events) == 0 {
			continue
		}
		judgeFiring(v, c, commands[i+1:])
		if !c.wrong {
			right++
		}
	}
	if right > 1 {
		v.Both++
	}
	if newest != nil && newest.Do != Cancel && newest.Due < end && !doubtful && right == 0 {
		v.Lost = append(v.Lost, newest.Op)
	}
}

// judgeFiring applies the rules to a command that fired, with the later ones of its key.
func judgeFiring(v *Verdict, c *command, later []*command) {
	c.early = slices.ContainsFunc(c.events, func(e Line) bool { return e.Wall < c.Due })
	if c.early {
		v.Early = append(v.Early, c.Op)
	}
	if slices.ContainsFunc(c.events, func(e Line) bool { return e.ID != c.events[0].ID }) {
		v.Doubled = append(v.Doubled, c.Op)
	}
	replaced := func(cancel bool) bool {
		return slices.ContainsFunc(later, func(l *command) bool { return (l.Do == Cancel) == cancel && l.inForceBefore(c.Due) })
	}
	if replaced(false) {
		v.Superseded, c.wrong = append(v.Superseded, c.Op), true
	}
	if replaced(true) {
		v.Canceled, c.wrong = append(v.Canceled, c.Op), true
	}
}

// measure says how late events were, and how long a fault was felt.
func (h *history) measure(v *Verdict) {
	var lateness, clean []int64
	for c := range maps.Values(h.commands) {
		if !c.taken() || len(c.events) == 0 || c.early || c.wrong {
			continue
		}
		base := max(c.Due, c.takenFrom())
		first := c.events[0].Wall
		lateness = append(lateness, max(0, first-base))
		if first-base <= late {
			continue
		}
		v.Stray++
		for _, f := range slices.Backward(h.faults) {
			if f.from <= base+late {
				f.last = max(f.last, first)
				v.Stray--
				break
			}
		}
	}
	for _, f := range h.faults {
		clean = append(clean, max(0, f.last-cmp.Or(f.healed, h.last.Wall)))
	}
	v.LateP50, v.LateP99, v.LateMax = percentile(lateness, 50), percentile(lateness, 99), percentile(lateness, 100)
	v.CleanP50, v.CleanMax = percentile(clean, 50), percentile(clean, 100)
}

func percentile(all []int64, p int) int64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[(len(all)*p+99)/100-1]
}
