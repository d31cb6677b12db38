// Package admin is the service over HTTP, for operators and their tools: whether it is
// alive and ready, its metrics, and its timers as a JSON API. [Server] is an http.Handler, which a host may
// mount below a prefix of its own, and listens by itself if it is run.
package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/timer"
)

// Options tune a [Server].
type Options struct {
	Addr     string        // host:port to listen on; port 0 takes any free one
	Moves    bool          // another port is taken if that one is in use
	Prefix   string        // path that all paths begin with, such as "/timers"; default none
	Token    string        // that requests must show, all but those for /livez and /readyz; default none is needed
	ReadOnly bool          // requests that would change something are refused
	Monitor  *Monitor      // how the service is; required
	Metrics  http.Handler  // answers /metrics; default not found
	Timers   timer.Reader  // what the JSON API below /v1 reads; default no API
	Broker   broker.Broker // where that publishes commands; default it only reads
}

const (
	headerTimeout  = 5 * time.Second
	requestTimeout = 30 * time.Second // to read a request, and to answer it
	idleTimeout    = 2 * time.Minute
	maxHeader      = 16 << 10
	maxBody        = 64 << 10

	stopTimeout = 200 * time.Millisecond // how long a stop waits for requests
)

// A Server answers HTTP. Make one with [New].
type Server struct {
	opt     Options
	log     *slog.Logger
	handler http.Handler
	tokens  *tokens
	address string // where it listens
	socket  net.Listener
}

// New returns a Server. It starts nothing: call [Server.Listen] and [Server.Run], or use
// it as a handler.
func New(log *slog.Logger, opt Options) *Server {
	s := &Server{opt: opt, log: log, tokens: newTokens(opt.Token)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", s.livez)
	mux.HandleFunc("GET /readyz", s.readyz)
	if opt.Metrics != nil {
		mux.Handle("GET /metrics", opt.Metrics)
	}
	if opt.Timers != nil {
		a := newAPI(log, opt)
		mux.Handle("/v1/", a)
		a.describe(mux)
		showDocs(mux, opt.Prefix)
	}
	var h http.Handler = mux
	h = http.MaxBytesHandler(h, maxBody)
	h = http.NewCrossOriginProtection().Handler(h)
	h = s.authorize(h)
	h = s.checkHost(h)
	h = safeHeaders(h)
	if opt.Prefix != "" {
		h = http.StripPrefix(opt.Prefix, h)
	}
	s.handler = h
	return s
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Listen begins to listen. The error says what to set if the address is in use.
func (s *Server) Listen(ctx context.Context) error {
	var err error
	var listen net.ListenConfig
	s.socket, err = listen.Listen(ctx, "tcp", s.opt.Addr)
	if errors.Is(err, syscall.EADDRINUSE) && s.opt.Moves {
		host, _, _ := net.SplitHostPort(s.opt.Addr)
		s.socket, err = listen.Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
		if err == nil {
			s.log.WarnContext(ctx, "the default address for HTTP is in use, another port was taken; set http_addr to choose one", "addr", s.opt.Addr, "taken", s.socket.Addr())
		}
	}
	if err != nil {
		return fmt.Errorf("listen for HTTP: %w; set http_addr to a free address, or to nothing for no HTTP", err)
	}
	host, port, _ := net.SplitHostPort(s.socket.Addr().String())
	if asked, _, _ := net.SplitHostPort(s.opt.Addr); asked == "" || net.ParseIP(asked).IsUnspecified() {
		host = "localhost"
	}
	s.address = "http://" + net.JoinHostPort(host, port) + s.opt.Prefix
	return nil
}

// Address returns the URL of the server, once it listens.
func (s *Server) Address() string { return s.address }

// Run answers requests until ctx is done, then those under way, for at most
// a moment, and returns nil.
func (s *Server) Run(ctx context.Context) error {
	server := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       requestTimeout,
		WriteTimeout:      requestTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(s.socket) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve HTTP: %w", err)
	case <-ctx.Done():
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err := server.Shutdown(stopping); err != nil {
		_ = server.Close()
	}
	<-ended //nolint:errcheck // http.ErrServerClosed
	return nil
}

// policy lets a page load what this server has, and nothing else.
const policy = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"

// safeHeaders sets what keeps a page from being framed, guessed at, or kept.
func safeHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Content-Security-Policy", policy)
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// checkHost refuses names of hosts that only a rebound DNS name would send: without a
// token, who may ask is decided by the address alone.
func (s *Server) checkHost(next http.Handler) http.Handler {
	asked, _, _ := net.SplitHostPort(s.opt.Addr)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = strings.Trim(r.Host, "[]")
		}
		ip := net.ParseIP(host)
		if s.opt.Token == "" && s.opt.Addr != "" && host != "localhost" && ip == nil && host != cmp.Or(asked, "localhost") {
			writeText(w, http.StatusMisdirectedRequest, "the host "+quote(host)+" is not this service: use localhost or an address\n")
			return
		}
		next.ServeHTTP(w, r)
	})
}
