package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/event-service-agent/timer-service/internal/apiclient"
)

type healthCmd struct {
	Live    bool          `help:"Ask whether the process works, not whether it is ready."`
	Timeout time.Duration `default:"2s" help:"How long to wait for the answer."`
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
	ctx, cancel := context.WithTimeout(ctx, h.Timeout)
	defer cancel()
	service, err := e.service(ctx)
	if errors.Is(err, errNoService) { // another program may listen on the address: it gets no token
		service, err = apiclient.Here(e.cfg, "")
	}
	if err != nil {
		return err
	}
	answer, err := service.Ask(ctx, path+"?verbose", accept)
	if cause, is := errors.AsType[*url.Error](err); is { // it has all that there is to say
		err = cause
	}
	if err != nil {
		return err
	}
	if e.out.json && json.Valid(answer.Body) {
		e.out.line(json.RawMessage(answer.Body))
	} else {
		fmt.Fprint(e.out.w, string(answer.Body))
	}
	switch answer.Code {
	case http.StatusOK:
		return nil
	case http.StatusServiceUnavailable:
		return fmt.Errorf("the service is not %s", path[1:])
	}
	return fmt.Errorf("the answer is %s: is that the service?", answer.Status)
}
