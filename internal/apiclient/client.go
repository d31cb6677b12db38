// Package apiclient asks a service through its JSON API: one that runs over HTTP or on its
// unix socket, or the same handler within this process. Answers are the types of package
// admin.
package apiclient

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/internal/trust"
	"github.com/event-service-agent/timer-service/timer"
)

// Errors that callers tell apart.
var (
	ErrAway     = errors.New("the service does not answer over HTTP")
	ErrOther    = errors.New("no service of this database answers")
	ErrDenied   = errors.New("the service denies it")
	ErrStranger = errors.New("the socket of the service is that of another user, and was asked nothing; remove it, or name the service with --server")
)

// A Conflict says why something stays as it is.
type Conflict string

// Error returns it.
func (c Conflict) Error() string { return string(c) }

// An Invalid is the refusal of a request, which changed nothing.
type Invalid string

// Error returns it.
func (i Invalid) Error() string { return string(i) }

// An absentError names a thing that does not exist, or may not be seen.
type absentError string

// Error returns it.
func (a absentError) Error() string { return string(a) }

// Unwrap returns the class of the error.
func (absentError) Unwrap() error { return timer.ErrNotFound }

// NoSuch begins the error of a service for a request that names something absent.
const NoSuch = "there is no such "

const (
	timeout   = 30 * time.Second // of a request: to forget a tenant takes longest
	maxAnswer = 64 << 20         // a thousand timers with their data, however these are written
)

// A Client asks one service. Make it with [New], [Local] or [Within].
type Client struct {
	url, token string
	ask        func(*http.Request) (*http.Response, error)
}

// New returns a client of the service at a URL, with a token, which may be empty. It
// touches no network.
func New(url, token string) *Client {
	return newClient(url, token, http.DefaultTransport)
}

// Here returns a client of the service that listens on http_addr of this machine. Where it has
// TLS, it shows the certificate of the configuration, so no other program gets the token.
func Here(cfg config.Config, token string) (*Client, error) {
	if cfg.HTTPTLSCert == "" {
		return New(cfg.LocalURL(), token), nil
	}
	text, err := os.ReadFile(cfg.HTTPTLSCert)
	if err != nil {
		return nil, fmt.Errorf("http_tls_cert: %w", err)
	}
	own, _ := pem.Decode(text)
	check := func(of tls.ConnectionState) error {
		if own == nil || !bytes.Equal(own.Bytes, of.PeerCertificates[0].Raw) {
			return errors.New("its certificate is not the one of http_tls_cert")
		}
		return nil
	}
	// The certificate is for the names that other machines use.
	c := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, VerifyConnection: check} //nolint:gosec // it is compared
	return newClient(cfg.LocalURL(), token, &http.Transport{TLSClientConfig: c}), nil
}

// Local returns a client of the service that listens on a unix socket, below a prefix. The
// error says that none does, or that this user may not open the socket, or it wraps [ErrStranger].
// Where the system does not tell whose service it is, the client sends no token.
func Local(ctx context.Context, socket, prefix, token string) (*Client, error) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
		if err != nil {
			return nil, err
		}
		if err := trust.Peer(conn, socket); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrStranger, errors.Join(err, conn.Close()))
		}
		return conn, nil
	}
	conn, err := dial(ctx, "", "")
	if err != nil {
		return nil, err
	}
	if !trust.KnowsPeers {
		token = ""
	}
	return newClient("http://localhost"+prefix, token, &http.Transport{DialContext: dial}), conn.Close()
}

func newClient(url, token string, through http.RoundTripper) *Client {
	h := &http.Client{Transport: through, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }} // the token is for this host
	return &Client{
		url: strings.TrimSuffix(url, "/"), token: token,
		ask: func(r *http.Request) (*http.Response, error) {
			answer, err := h.Do(r)
			if err != nil {
				return nil, fmt.Errorf("%w: %w", ErrAway, err)
			}
			return answer, nil
		},
	}
}

// Within returns a client for a database on which no service runs: requests go to an HTTP
// handler in this process, which reads the database and changes nothing. The client returns
// the cause of an error of the database, which a service would only log.
func Within(database timer.Reader) *Client {
	var failed error
	handler := admin.New(slog.New(slog.DiscardHandler), admin.Options{Timers: database, Failed: func(err error) { failed = err }})
	return &Client{
		url: "http://localhost",
		ask: func(r *http.Request) (*http.Response, error) {
			failed = nil
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, r)
			if failed != nil {
				return nil, errors.Join(r.Context().Err(), failed)
			}
			return answer.Result(), nil
		},
	}
}

// Path returns a path of the API with these segments.
func Path(segments ...string) string {
	path := "/v1"
	for _, s := range segments {
		path += "/" + url.PathEscape(s)
	}
	return path
}

// TimerPath returns the path of a timer.
func TimerPath(key timer.Key) string {
	return Path("tenants", string(key.TenantID), "timers", string(key.ServiceCallID))
}

// Query returns the query of pairs of a name and a value, without pairs of an empty value; empty if
// there are no others.
func Query(pairs ...string) string {
	v := make(url.Values)
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	return strings.TrimSuffix("?"+v.Encode(), "?")
}

// Get returns the answer to a GET.
func Get[T any](ctx context.Context, c *Client, path string) (T, error) {
	return Do[T](ctx, c, http.MethodGet, path, nil)
}

// Do sends a request with a body of JSON, or none, and returns the answer.
func Do[T any](ctx context.Context, c *Client, method, path string, request []byte) (answer T, err error) {
	body, err := c.Send(ctx, method, path, request)
	if err == nil && len(body) > 0 && json.Unmarshal(body, &answer) != nil {
		err = fmt.Errorf("%w: it answers %s with no JSON of ours: is that a timer service?", ErrAway, path)
	}
	return answer, err
}

// Readiness returns how the parts of a service are.
func (c *Client) Readiness(ctx context.Context) (is admin.Readiness, err error) {
	answer, err := c.Ask(ctx, "/readyz", "application/json")
	if err == nil && (json.Unmarshal(answer.Body, &is) != nil || is.Parts == nil) {
		err = fmt.Errorf("%w: %s is another program, which answers %s as %s", ErrOther, c.url, answer.Status, cmp.Or(answer.Type, "no type"))
	}
	return is, err
}

// An Answer is one of any status.
type Answer struct {
	Code   int
	Status string // the same with its name
	Type   string // of the body
	Body   []byte
}

// Ask returns the answer to a GET of a path outside the API.
func (c *Client) Ask(ctx context.Context, path, accept string) (Answer, error) {
	return c.exchange(ctx, http.MethodGet, path, accept, "", nil)
}

// Send sends a request with a body of JSON, or none, and returns the body of the answer.
func (c *Client) Send(ctx context.Context, method, path string, request []byte) ([]byte, error) {
	return c.whole(c.exchange(ctx, method, path, "application/json, text/plain;q=0.5", "application/json", request))
}

// Publish has the service publish commands, which are envelopes, and returns the result of
// each. There are at most [admin.MaxCommands] of them.
func (c *Client) Publish(ctx context.Context, commands [][]byte) ([]admin.LineResult, error) {
	const begin = admin.RecordSeparator // of each: data may have line breaks
	request := append([]byte(begin), bytes.Join(commands, []byte("\n"+begin))...)
	answer, err := c.whole(c.exchange(ctx, http.MethodPost, Path("commands"), admin.JSONLines, admin.JSONLines, request))
	if err != nil {
		return nil, err
	}
	results := make([]admin.LineResult, 0, len(commands))
	for line := range bytes.Lines(answer) {
		var r admin.LineResult
		if json.Unmarshal(line, &r) == nil {
			results = append(results, r)
		}
	}
	if len(results) != len(commands) {
		return nil, fmt.Errorf("%w: it answers %d commands with %d results: is that a timer service?", ErrAway, len(commands), len(results))
	}
	return results, nil
}

// Stream returns the body of the answer to a GET, which comes until ctx ends. Close it.
func (c *Client) Stream(ctx context.Context, path string) (io.ReadCloser, error) {
	answer, err := c.begin(ctx, http.MethodGet, path, admin.JSONLines, "", nil)
	switch {
	case err != nil:
		return nil, err
	case answer.StatusCode < http.StatusMultipleChoices:
		return answer.Body, nil
	}
	_, err = c.whole(read(answer))
	return nil, err
}

// whole returns the body of an answer of the API, or the error that it is.
func (c *Client) whole(answer Answer, err error) ([]byte, error) {
	if err != nil || answer.Code < http.StatusMultipleChoices {
		return answer.Body, err
	}
	return nil, c.refusal(answer)
}

// exchange sends a request, and reads the answer.
func (c *Client) exchange(ctx context.Context, method, path, accept, kind string, request []byte) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	answer, err := c.begin(ctx, method, path, accept, kind, request)
	if err != nil {
		return Answer{}, err
	}
	return read(answer)
}

// begin sends a request with a body of a kind, or none.
func (c *Client) begin(ctx context.Context, method, path, accept, kind string, request []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(request))
	if err != nil {
		return nil, err
	}
	if request != nil {
		r.Header.Set("Content-Type", kind)
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	r.Header.Set("Accept", accept)
	return c.ask(r)
}

// read reads an answer to its end.
func read(answer *http.Response) (Answer, error) {
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	switch {
	case err != nil:
		err = fmt.Errorf("%w: %w", ErrAway, err)
	case len(body) > maxAnswer: // the rest would be missing without a word
		err = fmt.Errorf("the service answers with more than %d MiB: ask for less at a time, with --limit", maxAnswer>>20)
	}
	return Answer{answer.StatusCode, answer.Status, answer.Header.Get("Content-Type"), body}, err
}

// refusal returns the error of an answer that is none.
func (c *Client) refusal(a Answer) error {
	var problem struct{ Detail, Reason, ID string }
	isProblem := json.Unmarshal(a.Body, &problem) == nil && problem.Detail != ""
	if !isProblem {
		problem.Detail = strings.TrimSpace(string(bytes.SplitN(a.Body, []byte("\n"), 2)[0]))
	}
	if a.Code == http.StatusNotFound && (!isProblem || problem.Detail == admin.NoPath) {
		return fmt.Errorf("%w: there is no API at this URL: is the path missing that http_prefix sets?", ErrAway)
	}
	if problem.Reason != "" && (a.Code == http.StatusConflict || problem.ID != "") { // it was published, or can have no effect
		return Conflict(problem.Detail + " (" + problem.Reason + ")")
	}
	switch a.Code {
	case http.StatusUnauthorized:
		if c.token != "" {
			return fmt.Errorf("%w: the token is wrong: see TIMER_HTTP_TOKEN, or --token-file", ErrDenied)
		}
		return fmt.Errorf("%w without a token: set TIMER_HTTP_TOKEN, or --token-file", ErrDenied)
	case http.StatusForbidden, http.StatusTooManyRequests:
		return fmt.Errorf("%w: %s", ErrDenied, problem.Detail)
	case http.StatusNotFound:
		return absentError(problem.Detail)
	case http.StatusConflict:
		return Conflict(problem.Detail)
	case http.StatusUnprocessableEntity:
		return Invalid(problem.Detail)
	}
	return fmt.Errorf("the service answers %s: %s", a.Status, problem.Detail)
}
