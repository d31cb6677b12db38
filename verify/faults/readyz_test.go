package faults_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/verify/internal/harness"
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
	harm    func(*service)
	repair  func(*service)
}

// A health is the answer of the service about its health.
type health struct {
	Ready bool
	Parts []struct {
		Part, Reason, Advice string
		OK                   bool
	}
}

const (
	askFor    = time.Second      // longest wait for an answer
	seenIn    = 10 * time.Second // of a busy machine; on an idle one it is two
	brokenFor = 8 * time.Second  // so that pauses between retries have grown
)

// ask returns how the service is, nil if it does not answer.
func (s *service) ask() *health {
	ctx, cancel := context.WithTimeout(s.Context(), askFor)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/readyz", nil)
	harness.Must(s, err)
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
func (s *service) await(what string, within time.Duration, wanted func(*health) bool) time.Duration {
	s.T.Helper()
	var h *health
	defer func() {
		if s.Failed() {
			s.Logf("it answered last: %+v", h)
		}
	}()
	began := time.Now()
	harness.Until(s, what, within, func() bool { h = s.ask(); return wanted(h) })
	return time.Since(began)
}

// awaitRed waits until a part is red, and returns how long that took and the parts that
// are. Each says what is wrong and what to do.
func (s *service) awaitRed(part string) (took time.Duration, red []string) {
	s.T.Helper()
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

// TestReadyzIsRedWhileSomethingIsBroken harms services that have nothing to do. Each
// names the part, and is green again after the repair.
func TestReadyzIsRedWhileSomethingIsBroken(t *testing.T) {
	t.Parallel()
	for name, c := range causes {
		if testing.Short() && !c.quick {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := c.set(t)
			s := serve(t, f.environ...)
			s.await("ready", time.Minute, func(h *health) bool { return h != nil && h.Ready })
			harmed := time.Now()
			f.harm(s)
			seen, red := s.awaitRed(c.part)
			if c.part != "" {
				s.says(`msg="not ready" part=`+c.part, harmed, seenIn)
			}
			if !testing.Short() {
				awaitTime(t, harmed, brokenFor)
			}
			before, repaired := s.Process, time.Now()
			f.repair(s)
			gone := s.await("ready again", 3*seenIn, func(h *health) bool { return h != nil && h.Ready })
			if c.part != "" && s.Process == before { // it was not started again
				s.says(`msg="ready again" part=`+c.part, repaired, seenIn)
			}
			t.Logf("%s: red after %v, green again %v after the repair", strings.Join(red, ", "), seen, gone)
		})
	}
}
