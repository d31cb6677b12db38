package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

type healthCmd struct {
	Live    bool          `help:"Ask whether the process works, not whether it is ready."`
	Timeout time.Duration `default:"2s" help:"How long to wait for the answer."`
}

// Help is printed below the summary.
func (healthCmd) Help() string {
	return `Asks a running service over HTTP whether it is ready: commands are taken and timers
fire. Prints each part, since when it is as it is, and what to do. The exit code is 1 if
it is not ready, or does not answer.

Examples:

    timer-service health
    timer-service health --live
    timer-service health -o json --server http://timers.example:8080`
}

// maxAnswer is how much of an answer is read.
const maxAnswer = 1 << 20

// Run asks the service.
func (h *healthCmd) Run(ctx context.Context, e *env) error {
	server := strings.TrimSuffix(e.cfg.Server.Reveal(), "/")
	if server == "" {
		server = e.cfg.LocalURL()
	}
	if server == "" {
		return wrong("health", "http_addr is empty: there is no HTTP here; give --server")
	}
	path := "/readyz?verbose"
	if h.Live {
		path = "/livez"
	}
	ctx, cancel := context.WithTimeout(ctx, h.Timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server+path, nil)
	if err != nil {
		return err
	}
	if e.out.json {
		r.Header.Set("Accept", "application/json")
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return fmt.Errorf("ask the service: %w", err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("ask the service: %w", err)
	}
	if e.out.json && json.Valid(body) {
		e.out.line(json.RawMessage(body))
	} else {
		fmt.Fprint(e.out.w, string(body))
	}
	switch {
	case answer.StatusCode == http.StatusOK:
		return nil
	case h.Live:
		return errors.New("the service is not alive")
	case answer.StatusCode == http.StatusServiceUnavailable:
		return errors.New("the service is not ready")
	}
	return fmt.Errorf("the answer is %s: is that the service?", answer.Status)
}
