package faults_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A cause is a fault of something that the service stands on.
type cause struct {
	part  string // that has to be red; empty if the service can't answer at all
	quick bool   // tested with -short, too
	set   func(t *testing.T) fault
}

// A fault is harm to a service that has nothing to do, and its repair.
type fault struct {
	environ []string // of the service
	harm    func(*site)
	repair  func(*site)
}

// A site is a service that answers HTTP.
type site struct {
	*testing.T
	environ []string
	service *process
	url     string
}

// A health is what the service answers to those who ask for it.
type health struct {
	Ready bool
	Parts []struct {
		Part, Reason, Advice string
		OK                   bool
	}
}

const (
	askEvery  = 50 * time.Millisecond
	askFor    = time.Second      // longest wait for an answer
	seenIn    = 10 * time.Second // of a busy machine; on one with nothing else to do it is two
	brokenFor = 8 * time.Second  // so that pauses between retries have grown
)

// serveHTTP starts the service, and waits until it is ready.
func serveHTTP(t *testing.T, environ ...string) *site {
	t.Helper()
	s := &site{T: t, environ: append([]string{"TIMER_HTTP_ADDR=127.0.0.1:0"}, environ...)}
	s.start()
	return s
}

// start starts the service, and waits until it is ready.
func (s *site) start() {
	s.Helper()
	began := time.Now()
	s.service = start(s.T, "service", s.environ...)
	said := s.service.says("http ", began, time.Minute).text
	s.url, _, _ = strings.Cut(strings.TrimSpace(strings.TrimPrefix(said, "http")), ",")
	s.await("ready", time.Minute, func(h *health) bool { return h != nil && h.Ready })
}

// ask returns how the service is, nil if it does not answer.
func (s *site) ask() *health {
	ctx, cancel := context.WithTimeout(s.Context(), askFor)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/readyz", nil)
	if err != nil {
		s.Fatal(err)
	}
	r.Header.Set("Accept", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil
	}
	defer answer.Body.Close()
	h := new(health)
	if json.NewDecoder(answer.Body).Decode(h) != nil {
		return nil
	}
	if h.Ready != (answer.StatusCode == http.StatusOK) {
		s.Errorf("ready is %v with the status %s", h.Ready, answer.Status)
	}
	return h
}

// await asks until an answer is as wanted, and returns how long that took.
func (s *site) await(what string, within time.Duration, wanted func(*health) bool) time.Duration {
	s.Helper()
	began := time.Now()
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		h := s.ask()
		took := time.Since(began)
		if wanted(h) {
			return took
		}
		if took > within {
			s.Fatalf("waited %v in vain for %s: %+v", took, what, h)
		}
		<-tick.C
	}
}

// awaitRed waits until a part is red, and returns how long that took and the parts that
// are. Each says what is wrong and what to do.
func (s *site) awaitRed(part string) (took time.Duration, red []string) {
	s.Helper()
	took = s.await("red "+part, seenIn, func(h *health) bool {
		red = nil
		if h == nil {
			return part == ""
		}
		for _, p := range h.Parts {
			if p.OK {
				continue
			}
			red = append(red, p.Part)
			if p.Reason == "" || p.Advice == "" {
				s.Errorf("%s is red for the reason %q, with the advice %q", p.Part, p.Reason, p.Advice)
			}
			if p.Part == part {
				s.Logf("%s: %s; %s", p.Part, p.Reason, p.Advice)
			}
		}
		return part != "" && slices.Contains(red, part)
	})
	return took, red
}

// A measurement is how long health was wrong after a fault, and after its repair.
type measurement struct {
	name       string
	red        []string
	seen, gone time.Duration
}

// TestReadyzIsRedWhileSomethingIsBroken harms services that have nothing to do. Each
// names the part, and is green again after the repair.
//
// With -v it prints how long that took.
func TestReadyzIsRedWhileSomethingIsBroken(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var all []measurement
	t.Cleanup(func() {
		slices.SortFunc(all, func(a, b measurement) int { return strings.Compare(a.name, b.name) })
		var table strings.Builder
		for _, m := range all {
			fmt.Fprintf(&table, "| %s | %s | %.1f | %.1f |\n", m.name, strings.Join(m.red, ", "), m.seen.Seconds(), m.gone.Seconds())
		}
		t.Logf("seconds until red, and after the repair until green:\n%s", &table)
	})
	for name, c := range causes {
		if testing.Short() && !c.quick {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := c.set(t)
			s := serveHTTP(t, f.environ...)
			harmed := time.Now()
			f.harm(s)
			m := measurement{name: name}
			m.seen, m.red = s.awaitRed(c.part)
			if c.part != "" {
				s.service.says(`msg="not ready" part=`+c.part, harmed, seenIn)
			}
			if !testing.Short() {
				awaitTime(t, harmed, brokenFor)
			}
			before, repaired := s.service, time.Now()
			f.repair(s)
			m.gone = s.await("ready again", 3*seenIn, func(h *health) bool { return h != nil && h.Ready })
			if c.part != "" && s.service == before { // it was not started again
				s.service.says(`msg="ready again" part=`+c.part, repaired, seenIn)
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, m)
		})
	}
}
