// Package apiclient asks a service through its JSON API: one that runs over HTTP, or the
// same handler within this process.
package apiclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/timer"
)

// Errors that callers tell apart.
var (
	ErrAway   = errors.New("the service does not answer over HTTP")
	ErrDenied = errors.New("the service denies it")
)

// A conflict says why something stays as it is.
type conflict string

// Error returns it.
func (c conflict) Error() string { return string(c) }

const (
	timeout   = 30 * time.Second // of a request: to forget a tenant takes longest
	maxAnswer = 16 << 20
)

// A Client asks one service. Make it with [New].
type Client struct {
	url, token string
	ask        func(*http.Request) (*http.Response, error)
	close      func() error
}

// New returns a client of the service at a URL, with a token, which may be empty. It
// touches no network.
func New(url, token string) *Client {
	h := &http.Client{Timeout: timeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }} // the token is for this host
	return &Client{
		url: strings.TrimSuffix(url, "/"), token: token,
		ask: func(r *http.Request) (*http.Response, error) {
			answer, err := h.Do(r)
			if err != nil {
				return nil, fmt.Errorf("%w: %w", ErrAway, err)
			}
			return answer, nil
		},
		close: func() error {
			h.CloseIdleConnections()
			return nil
		},
	}
}

// Close lets go of connections, or of what is asked within this process.
func (c *Client) Close() error { return c.close() }

// get asks for a path, and decodes the answer into into.
func (c *Client) get(ctx context.Context, path string, into any) error {
	return c.do(ctx, http.MethodGet, path, nil, into)
}

// do sends a request, and decodes the answer into into, unless that is nil.
func (c *Client) do(ctx context.Context, method, path string, request []byte, into any) error {
	body, err := c.send(ctx, method, path, request)
	if err != nil || into == nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%w: it answers %s with no JSON of ours: is that a timer service?", ErrAway, path)
	}
	return nil
}

// Ask sends a request without a body, and returns the body of the answer.
func (c *Client) Ask(ctx context.Context, method, path string) ([]byte, error) {
	return c.send(ctx, method, path, nil)
}

// send sends a request with a body of JSON, and returns the body of the answer.
func (c *Client) send(ctx context.Context, method, path string, request []byte) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(request))
	if err != nil {
		return nil, err
	}
	if request != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	r.Header.Set("Accept", "application/json, text/plain;q=0.5")
	answer, err := c.ask(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAway, err)
	}
	if answer.StatusCode < http.StatusMultipleChoices {
		return body, nil
	}
	return nil, c.refusal(answer.StatusCode, answer.Status, body)
}

// refusal returns the error of an answer that is none.
func (c *Client) refusal(code int, status string, body []byte) error {
	var problem struct{ Detail string }
	isProblem := json.Unmarshal(body, &problem) == nil && problem.Detail != ""
	if !isProblem {
		problem.Detail = strings.TrimSpace(string(bytes.SplitN(body, []byte("\n"), 2)[0]))
	}
	if code == http.StatusNotFound && !isProblem {
		return fmt.Errorf("%w: there is no API at this URL: is the path missing that http_prefix sets?", ErrAway)
	}
	switch code {
	case http.StatusUnauthorized:
		if c.token != "" {
			return fmt.Errorf("%w: the token is wrong: see TIMER_HTTP_TOKEN, or --token-file", ErrDenied)
		}
		return fmt.Errorf("%w without a token: set TIMER_HTTP_TOKEN, or --token-file", ErrDenied)
	case http.StatusForbidden, http.StatusTooManyRequests:
		return fmt.Errorf("%w: %s", ErrDenied, problem.Detail)
	case http.StatusNotFound:
		return fmt.Errorf("%w: %s", timer.ErrNotFound, problem.Detail)
	case http.StatusConflict:
		return conflict(problem.Detail)
	case http.StatusUnprocessableEntity:
		return timer.Invalid(timer.ReasonBadField, "%s", problem.Detail)
	}
	return fmt.Errorf("the service answers %s: %s", status, problem.Detail)
}

// Database returns the id and the name of the database that is served.
func (c *Client) Database(ctx context.Context) (id, name string, err error) {
	var d admin.Database
	err = c.get(ctx, "/v1/database", &d)
	return d.ID, d.Name, err
}
