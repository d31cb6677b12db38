package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/internal/apiclient"
	"github.com/event-service-agent/timer-service/service"
)

type healthCmd struct {
	Live    bool    `help:"Ask whether the process works, not whether it is ready."`
	Timeout timeout `default:"2s" help:"How long to wait for the answer."`
}

// Help is printed below the summary.
func (healthCmd) Help() string {
	return `Asks a running service over HTTP whether it is ready: commands are taken and timers
fire. Prints each part, since when it is as it is, and, with its token, what to do. The
exit code is 1 if it is not ready, or does not answer.

Examples:

    timer-service health
    timer-service health --live
    timer-service health -o json --server http://timers.example:8080`
}

// Run asks the service.
func (h *healthCmd) Run(ctx context.Context, e *env) error {
	if e.cfg.Server.Empty() && e.cfg.LocalURL() == "" {
		return wrong("health", "http_addr is empty: there is no HTTP here; give --server")
	}
	path, accept := "/readyz", "text/plain"
	if h.Live {
		path = "/livez"
	}
	if e.out.json {
		accept = "application/json"
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(h.Timeout))
	defer cancel()
	asked, err := e.service(ctx)
	if errors.Is(err, errNoService) && e.cfg.Socket() != "" && e.cfg.LocalURL() != "" { // it may run without a socket
		if _, err = service.Answering(ctx, e.cfg); err == nil {
			asked, err = apiclient.Here(e.cfg, e.token)
		}
	}
	var answer apiclient.Answer
	if err == nil {
		answer, err = asked.Ask(ctx, path+"?verbose", accept)
	}
	if cause, is := errors.AsType[*url.Error](err); is { // it has all that there is to say
		err = cause
	}
	switch {
	case err != nil:
		return err
	case !isHealth(answer):
		return fmt.Errorf("another program answers, with %s as %s: is that the service?", answer.Status, cmp.Or(answer.Type, "no type"))
	case e.out.json && json.Valid(answer.Body):
		e.out.line(json.RawMessage(answer.Body))
	default:
		fmt.Fprint(e.out.w, string(answer.Body))
	}
	if answer.Code != http.StatusOK {
		return fmt.Errorf("the service is not %s", path[1:])
	}
	return nil
}

// isHealth reports whether an answer is that of a timer service about its health.
func isHealth(a apiclient.Answer) bool {
	var is admin.Readiness
	word, _, _ := bytes.Cut(a.Body, []byte("\n"))
	state, _, _ := strings.Cut(string(word), ":")
	return (a.Code == http.StatusOK || a.Code == http.StatusServiceUnavailable) &&
		(slices.Contains([]string{"ready", "not ready", "alive", "dead"}, state) || json.Unmarshal(a.Body, &is) == nil && is.Parts != nil)
}
