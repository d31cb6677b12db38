package services

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/internal/proxy"
)

// Kinds of faults.
const (
	killProcess  = "kill"      // a process of the service
	freeze       = "freeze"    // a process of the service
	killServer   = "server"    // its broker or database; of a service that is one, a process of it
	cut          = "cut"       // a connection is reset, and refused for a while
	halfOpen     = "half-open" // a connection stays open, and nothing arrives
	shortest     = time.Second // of a freeze, and of a half-open connection
	longest      = 10 * time.Second
	shortestAway = 100 * time.Millisecond // of a process that was killed
	longestAway  = 1500 * time.Millisecond
	shortestGap  = 1500 * time.Millisecond // between two faults
	longestGap   = 3500 * time.Millisecond
	wholeLimit   = time.Minute // for a service until it can stand the next fault
)

// A fault is one of a seed's list, which is the same for each service.
type fault struct {
	kind  string
	pick  int           // which of the processes or connections there are
	lasts time.Duration // of a freeze, and of a half-open connection
	away  time.Duration // of a process that was killed, and of a connection that was cut
	gap   time.Duration // after it
}

func faultsOf(seed uint64, n int) []fault {
	r := rand.New(rand.NewPCG(seed, 0x2545f4914f6cdd1d))
	between := func(least, most time.Duration) time.Duration {
		return least + time.Duration(r.Int64N(int64(most-least)))
	}
	var all []fault
	for range n {
		all = append(all, fault{
			kind: []string{killProcess, freeze, killServer, cut, halfOpen}[r.IntN(5)], pick: r.IntN(1 << 16),
			lasts: between(shortest, longest), away: between(shortestAway, longestAway), gap: between(shortestGap, longestGap),
		})
	}
	return all
}

// A part is a process, which can be killed, started again and frozen.
type part struct {
	name  string
	start func(context.Context) error // returns when it takes connections
	kill  func() error
	pid   func() int
}

// A connection is the proxies between two sides, which are cut together.
type connection struct {
	name    string
	proxies []*proxy.Proxy
}

// harm is what faults are done to.
type harm struct {
	processes   []part
	servers     []part // if there are none, the processes
	connections []connection
	whole       func() bool // whether the service can stand the next fault, which waits for that; may be nil
}

// inject does a fault and undoes it.
func (h harm) inject(ctx context.Context, rec *recorder, n int, f fault) error {
	switch f.kind {
	case cut, halfOpen:
		c := h.connections[f.pick%len(h.connections)]
		rec.noteFault(n, f.kind+" "+c.name)
		err := c.harm(ctx, f)
		rec.noteHealed(n)
		return err
	}
	parts := h.processes
	if f.kind == killServer && len(h.servers) > 0 {
		parts = h.servers
	}
	p := parts[f.pick%len(parts)]
	rec.noteFault(n, f.kind+" "+p.name)
	if f.kind == freeze {
		if err := p.freeze(ctx, f.lasts); err != nil {
			return err
		}
	} else {
		if err := p.kill(); err != nil {
			return fmt.Errorf("kill %s: %w", p.name, err)
		}
		pause.For(ctx, f.away)
		if err := p.start(ctx); err != nil {
			return fmt.Errorf("start %s again: %w", p.name, err)
		}
	}
	rec.noteHealed(n)
	return ctx.Err()
}

// await waits until the service can stand the next fault, or for a limit.
func (h harm) await(ctx context.Context) {
	for end := time.Now().Add(wholeLimit); h.whole != nil && !h.whole() && time.Now().Before(end); {
		if !pause.For(ctx, 50*time.Millisecond) {
			return
		}
	}
}

// harm cuts a connection, or has it half open.
func (c connection) harm(ctx context.Context, f fault) error {
	lasts := f.away
	for _, p := range c.proxies {
		if f.kind == cut {
			p.Refuse()
			p.Reset()
		} else {
			p.Drop(proxy.ToServer, proxy.ToClient)
			lasts = f.lasts
		}
	}
	pause.For(ctx, lasts)
	for _, p := range c.proxies {
		p.Pass()
		p.Reset() // a half-open connection never works again
	}
	return ctx.Err()
}

// freeze stops a process and its descendants for a while.
func (p part) freeze(ctx context.Context, lasts time.Duration) error {
	all, err := descendants(p.pid())
	if err != nil {
		return err
	}
	for _, pid := range all {
		err = errors.Join(err, syscall.Kill(pid, syscall.SIGSTOP))
	}
	pause.For(ctx, lasts)
	for _, pid := range all {
		err = errors.Join(err, syscall.Kill(pid, syscall.SIGCONT))
	}
	return err
}

// descendants returns a process and all that descend from it, as /proc of Linux has them.
func descendants(pid int) ([]int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	children := make(map[int][]int)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		_, after, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')'):]), " ")
		fields := strings.Fields(after)
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil || len(fields) < 2 {
			continue
		}
		parent, err := strconv.Atoi(fields[1])
		if err != nil {
			return nil, err
		}
		children[parent] = append(children[parent], child)
	}
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all, nil
}
