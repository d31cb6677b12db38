package handlers

import (
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// A kind is what one line of a [digest] is about.
type kind struct {
	tenant timer.TenantID
	reason timer.Reason // may be empty
}

const (
	digestInterval = time.Minute
	maxKinds       = 50  // tenants come from outside, as many as anyone likes
	anyTenant      = "*" // stands for the tenants of kinds beyond these
)

// A digest logs warnings about messages, of which there may be any number: the
// first of a kind at once, and a minute later how many there were, if there were
// more.
type digest struct {
	line func(attrs ...any) // logs a line

	mu    sync.Mutex
	kinds map[kind]*noted
	order []*noted
	more  int         // of kinds that are not in the map, which is full
	end   *time.Timer // of the minute; nil while there is nothing to log in the end
}

// A noted is one kind, this minute.
type noted struct {
	kind
	count int
	attrs []any // of the first one
}

func newDigest(line func(attrs ...any)) *digest {
	return &digest{line: line, kinds: make(map[kind]*noted)}
}

// note logs one of a kind with attributes, or counts it.
func (d *digest) note(k kind, attrs ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.end == nil {
		d.end = time.AfterFunc(digestInterval, d.flush)
	}
	n := d.kinds[k]
	if n == nil && len(d.kinds) == maxKinds {
		d.more++
		return
	}
	if n == nil {
		n = &noted{kind: k, attrs: attrs}
		d.kinds[k] = n
		d.order = append(d.order, n)
	}
	if n.count++; n.count == 1 {
		d.log(n)
	}
}

func (d *digest) log(n *noted) {
	attrs := []any{"tenant_id", n.tenant}
	if n.reason != "" {
		attrs = append(attrs, "reason", n.reason)
	}
	d.line(append(append(attrs, "count", n.count), n.attrs...)...)
}

// flush ends the minute. It is called at the stop too.
func (d *digest) flush() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.end == nil {
		return
	}
	d.end.Stop()
	d.end = nil
	for _, n := range d.order {
		if n.count > 1 {
			d.log(n)
		}
	}
	if d.more > 0 {
		d.line("tenant_id", anyTenant, "count", d.more)
	}
	clear(d.kinds)
	d.order, d.more = nil, 0
}
