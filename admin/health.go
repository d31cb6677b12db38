package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/config"
)

// livez answers whether the process works: 200, or 503 if it should be restarted. A restart
// would not help if the database or the broker is unreachable.
func (s *Server) livez(w http.ResponseWriter, _ *http.Request) {
	if !s.opt.Monitor.Alive() {
		writeText(w, http.StatusServiceUnavailable, fmt.Sprintf("dead: no check has ended for %v\n", dead))
		return
	}
	writeText(w, http.StatusOK, "alive\n")
}

// A Readiness says whether commands are handled and timers fire, and how each part is.
type Readiness struct {
	Ready    bool            `json:"ready"`
	Test     bool            `json:"testClock,omitempty"` // the time is that of a test
	Parts    []ReadinessPart `json:"parts"`
	Database string          `json:"database,omitempty"` // its id
}

// A ReadinessPart is a [Part] as JSON.
type ReadinessPart struct {
	Part   string    `json:"part"`
	OK     bool      `json:"ok"`
	Since  time.Time `json:"since"`
	Reason string    `json:"reason,omitempty"`
	Advice string    `json:"advice,omitempty"`
}

// readyz answers whether commands are handled and timers fire: 200, or 503 with the reasons.
// With ?verbose it lists each part, as JSON if the client accepts that. Reasons name hosts and
// tenants: they need a token of all tenants.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	h := s.opt.Monitor.Health()
	if who := accessOf(r.Context()); who.tenant != "" || who.role == config.Metrics {
		h.Parts = all(h.Parts, func(p Part) Part { return Part{Check: app.Check{Part: p.Part, Red: p.Red}, Since: p.Since} })
	}
	code := http.StatusOK
	if !h.Ready() {
		code = http.StatusServiceUnavailable
	}
	if strings.Contains(r.Header.Get("Accept"), "application/json") {
		parts := all(h.Parts, func(p Part) ReadinessPart { return ReadinessPart{p.Part, !p.Red, p.Since.UTC(), p.Reason, p.Advice} })
		is := Readiness{h.Ready(), s.opt.Clock != nil, parts, s.opt.Database}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(is)
		return
	}
	text := h.text(r.URL.Query().Has("verbose"), time.Now())
	if s.opt.Clock != nil {
		text += "TEST CLOCK: it is " + stamp(s.opt.Clock.Now()) + "\n"
	}
	writeText(w, code, text)
}

// text describes the parts, one on each line: all of them, or only the red ones.
func (h Health) text(verbose bool, now time.Time) string {
	var b strings.Builder
	switch {
	case h.Ready():
		b.WriteString("ready\n")
	case h.At.IsZero():
		b.WriteString("not ready: nothing was checked yet\n")
	default:
		b.WriteString("not ready\n")
	}
	for _, p := range h.Parts {
		if !p.Red && !verbose {
			continue
		}
		mark, state := "[+]", "ok"
		if p.Red {
			mark, state = "[-]", "failed"
		}
		fmt.Fprintf(&b, "%s %-9s %s since %s (%v)", mark, p.Part, state, p.Since.UTC().Format(time.RFC3339), now.Sub(p.Since).Round(time.Second))
		if p.Reason != "" {
			fmt.Fprintf(&b, ": %s", p.Reason)
		}
		b.WriteByte('\n')
		if p.Advice != "" {
			fmt.Fprintf(&b, "    %s\n", p.Advice)
		}
	}
	return b.String()
}

func writeText(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text))
}
