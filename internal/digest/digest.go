// Package digest bounds the lines of a log about things that may come in any number. It logs
// the first thing of a kind at once, and counts the others for a minute.
package digest

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	interval = time.Minute
	maxKinds = 50  // kinds hold names of tenants, which come from outside in any number
	others   = "*" // stands for all kinds beyond maxKinds
)

// A Digest logs the first of a kind at once, and a minute later how many there were, if
// there were more. It is safe for concurrent use.
type Digest struct {
	line func(attrs ...any) // logs a line

	mu    sync.Mutex
	kinds []*eventCount // at most maxKinds
	more  int           // things of further kinds
	name  any           // name of the first attribute of these kinds
	end   *time.Timer   // of the minute; nil while there is nothing to log in the end
}

// An eventCount counts the events of a kind, this minute.
type eventCount struct {
	kind   []any  // attributes that all have in common
	text   string // of these
	count  int
	logged int   // of these at once
	attrs  []any // of the first one
}

// New returns a Digest that logs lines with a function, which gets their attributes.
func New(line func(attrs ...any)) *Digest {
	return &Digest{line: line}
}

// Note logs some of a kind, or counts them. A kind is the names and values of the attributes
// that all have in common, the attributes that follow are of the first of these.
func (d *Digest) Note(count int, kind []any, attrs ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.end == nil {
		d.end = time.AfterFunc(interval, d.Flush)
	}
	text := fmt.Sprint(kind...)
	if i := slices.IndexFunc(d.kinds, func(n *eventCount) bool { return n.text == text }); i >= 0 {
		d.kinds[i].count += count
		return
	}
	if len(d.kinds) == maxKinds {
		d.name = kind[0]
		d.more += count
		return
	}
	n := &eventCount{kind: kind, text: text, count: count, logged: count, attrs: attrs}
	d.kinds = append(d.kinds, n)
	d.log(n)
}

func (d *Digest) log(n *eventCount) {
	d.line(slices.Concat(n.kind, []any{"count", n.count}, n.attrs)...)
}

// Flush ends the minute. Call it at the stop, too.
func (d *Digest) Flush() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.end == nil {
		return
	}
	d.end.Stop()
	d.end = nil
	for _, n := range d.kinds {
		if n.count > n.logged {
			d.log(n)
		}
	}
	if d.more > 0 {
		d.line(d.name, others, "count", d.more)
	}
	d.kinds, d.more = nil, 0
}
