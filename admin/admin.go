// Package admin serves HTTP for operators and their tools: liveness and readiness, metrics, a
// dashboard, and the timers as a JSON API. [Server] is an http.Handler, which a host may
// mount below a prefix of its own. It listens by itself if it is run.
package admin

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/internal/digest"
	"github.com/event-service-agent/timer-service/internal/option"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// Options tune a [Server].
type Options struct {
	Addr     string         // host:port to listen on; port 0 takes any free one; default none
	Socket   string         // path of a unix socket too, which only this user may open; default none
	AnyPort  bool           // listen on a free port if the one of Addr is in use
	Prefix   string         // path that all paths begin with, such as "/timers"; default none
	Origin   string         // URL through a proxy, such as https://timers.example; default as requested
	Proxies  []netip.Prefix // whose X-Forwarded-For and X-Forwarded-Proto are believed; default none
	TLS      *tls.Config    // of connections over TCP; default none
	Token    string         // needed by all requests except /livez and /readyz; default none
	ReadOnly bool           // refuse requests that would change something, unless they come by Socket
	Monitor  *Monitor       // the health of the service; required
	Database string         // id of the database, which /readyz shows; default not shown
	Metrics  http.Handler   // answers /metrics; default 404
	Profiles http.Handler   // serves /debug/pprof/ to holders of the token of all tenants; default 404
	Timers   timer.Reader   // served by the JSON API below /v1 and the dashboard; default neither
	History  *History       // how late events were, for the dashboard; default not shown
	Broker   broker.Broker  // where commands are published; default Apply applies them
	Operator timer.Operator // makes the changes that are no commands; default they are refused
	Events   *Events        // source of /v1/events; default no events
	Service  Service        // the running service to change; default it can't be changed
	Quotas   *quota.Limiter // quotas of tenants; default none
	Clock    *app.TestClock // the time of a service under test, which requests may move; default it is no test

	Connections   int           // most over TCP, and eight more for probes; default 1000
	MaxClockAhead time.Duration // how far ahead of the clock commands may be; default 24 hours

	// Waiting counts the messages that wait in the inbox, of a tenant or of all. By default
	// that is not shown.
	Waiting func(context.Context, timer.TenantID) ([]timer.InboxCount, error)

	// Unprotected returns how many timers only a backup protects. By default that is not
	// shown.
	Unprotected func() timer.Unprotected

	// Apply applies a command where there is no Broker. Without either the API only reads.
	Apply func(ctx context.Context, command *message.Message) error

	Failed func(error)                     // called with errors that an answer hides; default log only
	Traced func(http.Handler) http.Handler // wraps the handler, such as to make spans
}

const (
	headerTimeout  = 5 * time.Second
	requestTimeout = 30 * time.Second // to read a request, and to answer it
	idleTimeout    = 2 * time.Minute  // between two requests of a connection
	maxHeader      = 16 << 10
	maxBody        = 64 << 10 // of a form; the API has its own limits

	stopTimeout = 200 * time.Millisecond // how long a stop waits for requests
)

// A Server answers HTTP. Make one with [New].
type Server struct {
	opt      Options
	log      *slog.Logger
	handler  http.Handler
	tokens   *tokens
	sessions sessions
	actions  *actions
	routes   *routes
	api      *api   // nil if there are no timers to serve
	address  string // URL of the listener
	sockets  []net.Listener

	connections *connections
	refused     *digest.Digest // that there were too many connections
}

// New returns a Server. It starts nothing: call [Server.Listen] and [Server.Run], or use it
// as a handler.
func New(log *slog.Logger, opt Options) *Server {
	s := &Server{opt: opt, log: log, tokens: newTokens(opt.Token), sessions: newSessions(opt.Token), actions: newActions(log, opt), routes: newRoutes()}
	s.connections = &connections{most: option.Positive(opt.Connections, defaultConnections), open: make(map[net.Conn]*connection)}
	s.refused = digest.New(func(attrs ...any) {
		log.Warn("there are too many connections over HTTP: those that have shown no token end first", attrs...)
	})
	s.connections.full = func() { s.refused.Note(1, []any{"http_connections", s.connections.most}) }
	for _, method := range []string{"GET ", "OPTIONS "} { // some load balancers send OPTIONS
		s.routes.handle(method+"/livez", public, s.livez)
		s.routes.handle(method+"/readyz", public, s.readyz)
	}
	s.routes.handle("GET /login", public, s.showLogin)
	s.routes.handle("POST /login", public, s.login)
	s.routes.handle("POST /logout", public, s.logout)
	if opt.Profiles != nil {
		s.routes.handle("GET /debug/pprof", operatorToken, func(w http.ResponseWriter, r *http.Request) { // the mux would drop the prefix
			http.Redirect(w, r, opt.Prefix+"/debug/pprof/", http.StatusTemporaryRedirect)
		})
		s.routes.handle("GET /debug/pprof/", operatorToken, opt.Profiles.ServeHTTP)
	}
	if opt.Metrics != nil {
		s.routes.handle("GET /metrics", metricsToken, opt.Metrics.ServeHTTP)
	}
	if opt.Timers != nil {
		s.api = newAPI(s.actions, s.routes)
		s.api.describe(s.routes)
		showDocs(s.routes, opt.Prefix)
		newPages(s.actions).serve(s.routes)
	}
	cross := http.NewCrossOriginProtection()
	cross.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refuse(w, r, http.StatusForbidden, "this was sent by a page of another site")
	}))
	if opt.Origin != "" {
		if err := cross.AddTrustedOrigin(opt.Origin); err != nil {
			panic("admin: " + err.Error()) // the configuration was checked before
		}
	}
	h := s.authorize(cross.Handler(s.routes))
	h = s.checkHost(h)
	h = onlyProbes(h)
	h = safeHeaders(h)
	if opt.Prefix != "" {
		h = below(opt.Prefix, h)
	}
	if opt.Traced != nil {
		h = opt.Traced(h)
	}
	s.handler = h
	return s
}

// below removes a prefix before next answers. The prefix alone is the first page.
func below(prefix string, next http.Handler) http.Handler {
	strip := http.StripPrefix(prefix, next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == prefix {
			http.Redirect(w, r, prefix+"/", http.StatusTemporaryRedirect)
			return
		}
		strip.ServeHTTP(w, r)
	})
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Listen starts to listen. If the address is in use, the error names the setting. Some file
// systems can't have a unix socket: then the service runs without it.
func (s *Server) Listen(ctx context.Context) error {
	if s.opt.Socket != "" {
		if l, err := listenLocally(ctx, s.opt.Socket); err == nil {
			s.sockets = append(s.sockets, l)
		} else {
			s.log.WarnContext(ctx, "the verbs on this machine can't ask this service without --server; set http_socket to a path where a socket can be", "error", err)
		}
	}
	if s.opt.Addr == "" {
		return nil
	}
	var listen net.ListenConfig
	socket, err := listen.Listen(ctx, "tcp", s.opt.Addr)
	if errors.Is(err, syscall.EADDRINUSE) && s.opt.AnyPort {
		host, _, _ := net.SplitHostPort(s.opt.Addr)
		socket, err = listen.Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
		if err == nil {
			s.log.WarnContext(ctx, "the default address for HTTP is in use, another port was taken; set http_addr to choose one", "addr", s.opt.Addr, "taken", socket.Addr())
		}
	}
	if err != nil {
		return fmt.Errorf("listen for HTTP: %w; set http_addr to a free address, or to nothing for no HTTP", err)
	}
	scheme := "http://"
	if socket = s.bounded(socket); s.opt.TLS != nil {
		socket, scheme = tls.NewListener(socket, s.opt.TLS), "https://"
	}
	s.sockets = append(s.sockets, socket)
	host, port, _ := net.SplitHostPort(socket.Addr().String())
	if asked, _, _ := net.SplitHostPort(s.opt.Addr); asked == "" || net.ParseIP(asked).IsUnspecified() {
		host = "localhost"
	}
	s.address = scheme + net.JoinHostPort(host, port) + s.opt.Prefix
	return nil
}

// listenLocally listens on a unix socket. It replaces a socket that a killed process left
// behind, since a database has only one service.
func listenLocally(ctx context.Context, path string) (net.Listener, error) {
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() == fs.ModeSocket {
		if conn, err := new(net.Dialer).DialContext(ctx, "unix", path); err == nil {
			return nil, errors.Join(fmt.Errorf("another service listens on %s", path), conn.Close())
		}
		_ = os.Remove(path) // if it fails, listening returns the reason
	}
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	return l, os.Chmod(path, 0o600)
}

// Address returns the URL of the server, once it listens on its address.
func (s *Server) Address() string { return s.address }

// Run answers requests until ctx is done, lets running requests finish for at most 200 ms,
// and returns nil.
func (s *Server) Run(ctx context.Context) error {
	defer s.refused.Flush()
	server := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       requestTimeout,
		WriteTimeout:      requestTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ConnState:         s.connections.observe,
		ConnContext:       s.connections.context,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	ended := make(chan error, len(s.sockets))
	for _, l := range s.sockets {
		go func() { ended <- server.Serve(l) }()
	}
	select {
	case err := <-ended:
		return fmt.Errorf("serve HTTP: %w", err)
	case <-ctx.Done():
	}
	close(s.actions.stopping)
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err := server.Shutdown(stopping); err != nil {
		_ = server.Close()
	}
	for range s.sockets {
		<-ended //nolint:errcheck // http.ErrServerClosed
	}
	return nil
}

// policy lets a page load only from this server.
const policy = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"

// safe are the headers that forbid browsers to frame a page, to guess its type, or to keep it.
var safe = map[string]string{
	"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "same-origin", "Content-Security-Policy": policy, "Cache-Control": "no-store",
}

// safeHeaders sets the headers of [safe].
func safeHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range safe {
			w.Header().Set(name, value)
		}
		next.ServeHTTP(w, r)
	})
}

// checkHost refuses host names that only a rebound DNS name would send. Without a token only
// the address protects the server. Probes may have any host name, since they reveal no
// secrets.
func (s *Server) checkHost(next http.Handler) http.Handler {
	asked, _, _ := net.SplitHostPort(s.opt.Addr)
	_, outer, _ := strings.Cut(s.opt.Origin, "://")
	names := []string{"localhost", nameOf(cmp.Or(asked, "localhost")), nameOf(outer)}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := nameOf(r.Host)
		if s.opt.Token == "" && s.opt.Addr != "" && !isProbe(r) && net.ParseIP(name) == nil && !slices.Contains(names, name) {
			refuse(w, r, http.StatusMisdirectedRequest, "the host "+timer.Quote(name)+" is not this service: use localhost or an address, or set http_origin to where a proxy has it")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// nameOf returns the name of a host without its port, in the form in which names are
// compared: case and a final dot make no difference.
func nameOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}
