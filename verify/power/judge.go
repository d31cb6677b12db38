//go:build linux

package power

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/event-service-agent/timer-service/verify/crash/history"
)

// Rules about the broker within the service, beside those of package history.
const (
	Unstored history.Rule = "unstored" // a command that the broker acked is not in its stream
	Vanished history.Rule = "vanished" // a message that the broker delivered is not in its stream
)

// report judges what was recorded.
func (r *run) report(took time.Duration) Report {
	h := r.recorder.History()
	live := h.Messages
	if r.stored != nil {
		h.Messages = r.published()
	}
	report := Report{
		Seed: r.opt.Seed, Layout: r.opt.Layout, Rate: r.opt.Rate, Tenants: r.opt.Tenants,
		Cuts: r.cuts, Lives: r.lives, Seconds: took.Seconds(), Dir: r.dir, Verdict: history.Check(h),
	}
	slices.Sort(r.starts)
	if n := len(r.starts); n > 0 {
		report.StartP50MS, report.StartMaxMS = milliseconds(r.starts[n/2]), milliseconds(r.starts[n-1])
	}
	report.CutMaxMS = milliseconds(r.cutTook)
	report.Excuse(history.Duplicate) // at least once: a cut explains them
	report.Excuse(history.Repeated)
	for _, b := range r.breaches {
		report.Add(b.rule, "%s", b.text)
	}
	report.Findings = append(report.Findings, r.unstored(h.Sent), r.vanished(live))
	return report
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// published returns what the stream holds of events and dead letters, in order.
func (r *run) published() (all []history.Message) {
	for _, seq := range slices.Sorted(maps.Keys(r.stored)) {
		if m := r.stored[seq]; m.Topic != history.CommandsTopic {
			all = append(all, m)
		}
	}
	return all
}

// unstored finds commands that the broker acked and does not have.
func (r *run) unstored(sent []history.Sent) history.Finding {
	f := history.Finding{Rule: Unstored}
	for _, s := range sent {
		if r.stored == nil || !s.Acked {
			continue
		}
		if m, ok := r.stored[s.Seq]; !ok || m.Topic != history.CommandsTopic || !bytes.Equal(m.Body, s.Body) {
			count(&f, "the broker acked %s (%s, id %s) as %d, and has there: %q", s.Key, s.Note, s.ID, s.Seq, m.Body)
		}
	}
	return f
}

// vanished finds messages that the broker delivered and does not have.
func (r *run) vanished(live []history.Message) history.Finding {
	f := history.Finding{Rule: Vanished}
	for _, seen := range live {
		if r.stored == nil {
			continue
		}
		if m, ok := r.stored[seen.Seq]; !ok || m.Topic != seen.Topic || !bytes.Equal(m.Body, seen.Body) {
			count(&f, "the broker delivered %d on %s, and has there on %s: %q", seen.Seq, seen.Topic, m.Topic, m.Body)
		}
	}
	return f
}

func count(f *history.Finding, format string, args ...any) {
	if f.Count == 0 {
		f.Example = fmt.Sprintf(format, args...)
	}
	f.Count++
}

// cleanUp removes the directory of the run, or completes it if it has to be
// examined.
func (r *run) cleanUp(report *Report) error {
	if report.Error == "" && report.Violations() == 0 && report.Void() == nil && !r.opt.Keep {
		report.Dir = ""
		return os.RemoveAll(r.dir)
	}
	text, err := json.Marshal(r.recorder.History())
	if err != nil {
		return fmt.Errorf("write the history: %w", err)
	}
	return os.WriteFile(filepath.Join(r.dir, "history.json"), text, 0o600)
}
