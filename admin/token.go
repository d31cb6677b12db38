package admin

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/time/rate"

	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/timer"
)

const (
	wrongTokens = 10     // from one network, at once
	wrongRate   = 0.2    // and afterwards, per second
	maxGuessers = 10_000 // networks that are remembered
)

// A tokenHash stands for a token in memory.
type tokenHash = [sha256.Size]byte

func hashOf(token string) tokenHash { return sha256.Sum256([]byte(token)) }

// Tokens compares tokens in constant time, and limits guesses.
type tokens struct {
	full  tokenHash
	none  bool                                       // no token is needed
	known atomic.Pointer[map[tokenHash]config.Token] // in addition to full

	mu       sync.Mutex
	guessers map[netip.Prefix]*rate.Limiter
	order    []netip.Prefix // of guessers, the oldest first
}

func newTokens(token string) *tokens {
	t := &tokens{full: hashOf(token), none: token == "", guessers: make(map[netip.Prefix]*rate.Limiter)}
	t.known.Store(new(map[tokenHash]config.Token))
	return t
}

// of returns the rights of a token, and whether it is right. The map is searched by a hash,
// which a client that guesses can't choose.
func (t *tokens) of(hash tokenHash) (token config.Token, right bool) {
	full := subtle.ConstantTimeCompare(hash[:], t.full[:]) == 1
	token, known := (*t.known.Load())[hash]
	if full || t.none {
		return config.Token{Role: config.Operate}, true
	}
	return token, known
}

// status returns 200 if a token is right, and 401 if it is not. It returns 429 for both if
// the address has sent too many wrong tokens, unless the token is right and too long to be
// guessed, because otherwise one client behind a proxy would lock out all others.
func (t *tokens) status(token, address string) int {
	_, right := t.of(hashOf(token))
	if t.none || right && len(token) >= config.MinToken {
		return http.StatusOK
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	from := networkOf(address)
	guesser := t.guessers[from]
	switch {
	case guesser != nil && guesser.Tokens() < 1:
		return http.StatusTooManyRequests
	case right:
		return http.StatusOK
	case token == "":
		return http.StatusUnauthorized
	case guesser == nil:
		if len(t.order) >= maxGuessers {
			delete(t.guessers, t.order[0])
			t.order = t.order[1:]
		}
		guesser = rate.NewLimiter(wrongRate, wrongTokens)
		t.guessers[from], t.order = guesser, append(t.order, from)
	}
	guesser.Allow()
	return http.StatusUnauthorized
}

// networkOf returns the network that one client has to itself: an address of IPv4, or a /64 of IPv6. Whatever
// is no address, such as a unix socket, is one client.
func networkOf(address string) netip.Prefix {
	ip, _ := netip.ParseAddr(address)
	ip = ip.Unmap()
	network, _ := ip.Prefix(min(ip.BitLen(), 64))
	return network
}

// UseTokens replaces all tokens but the one of the options. All are refused if one is empty,
// belongs to several names, or is that one.
func (s *Server) UseTokens(all []config.Token) error {
	known := make(map[tokenHash]config.Token)
	for _, token := range all {
		if other, taken := known[token.Hash]; token.Hash == hashOf("") || token.Hash == s.tokens.full || taken && other != token {
			return errors.New("a token of " + token.Name + " is empty, that of another name, or http_token")
		}
		known[token.Hash] = token
	}
	s.tokens.known.Store(&known)
	return nil
}

// An access has the rights of the sender of a request.
type access struct {
	tenant   timer.TenantID // the only tenant that it may see; empty: all of them
	role     config.Role    // of its token
	readOnly bool           // nothing may be changed by HTTP
	who      string         // address of the client and the name of its token, if that has one
	lasts    func() bool    // reports whether token and session are still valid; nil: none is needed
}

// mayChange returns why the sender may change nothing, or nil.
func (a access) mayChange() error {
	switch {
	case a.readOnly:
		return errReadOnly
	case a.role != config.Operate:
		return errReadToken
	}
	return nil
}

// stillRight reports whether the token is still right and the session has not ended.
func (a access) stillRight() bool { return a.lasts == nil || a.lasts() }

// noAccess may see nothing: no tenant has this name.
var noAccess = access{tenant: "-", readOnly: true, who: "unknown"}

// accessKey is the key of the [access] in the context of a request.
type accessKey struct{}

// accessOf returns the rights of the sender of a request. A context without a request has
// none.
func accessOf(ctx context.Context) access {
	if a, ok := ctx.Value(accessKey{}).(access); ok {
		return a
	}
	return noAccess
}

// withAccess returns a context for the request of a sender.
func withAccess(ctx context.Context, a access) context.Context {
	return context.WithValue(ctx, accessKey{}, a)
}

// authorize lets requests pass that show a token or a session, and requests for a route that
// needs none.
func (s *Server) authorize(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := access{readOnly: s.opt.ReadOnly && !s.isLocal(r), who: s.addressOf(r)}
		pass := func() { next.ServeHTTP(w, r.WithContext(withAccess(r.Context(), who))) }
		open := s.isOpen(r)
		token := ""
		if scheme, value, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
			token = strings.TrimSpace(value)
		}
		hash, status := hashOf(token), http.StatusOK
		shown, session := s.sessions.of(r)
		if session = session && token == ""; session {
			hash = shown
		} else {
			status = s.tokens.status(token, who.who)
		}
		is, right := s.tokens.of(hash)
		switch right = right && status == http.StatusOK; {
		case open && !right:
			who.tenant = noAccess.tenant
			pass()
		case status == http.StatusTooManyRequests:
			w.Header().Set("Retry-After", strconv.Itoa(int(1/wrongRate)))
			refuse(w, r, status, "too many wrong tokens from this address: wait")
		case right:
			if !open { // a probe that needs no token shows none
				s.connections.loggedIn(r.Context())
			}
			if who.tenant, who.role = is.Tenant, is.Role; is.Name != "" {
				who.who += " with the token of " + is.Name
			}
			who.lasts = func() bool {
				token, ok := hash, true
				if session {
					token, ok = s.sessions.of(r)
				}
				now, right := s.tokens.of(token)
				return ok && right && now == is
			}
			pass()
		// A refresh would show the form inside its page.
		case r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html") && r.Header.Get("HX-Request") == "":
			at := url.Values{"next": {s.opt.Prefix + r.URL.RequestURI()}}
			http.Redirect(w, r, s.opt.Prefix+"/login?"+at.Encode(), http.StatusSeeOther)
		default:
			w.Header().Set("WWW-Authenticate", "Bearer")
			why := "a token is needed: send the header Authorization: Bearer, and the value of http_token"
			if token != "" {
				why = "the token is wrong: it is neither http_token nor in http_tenant_tokens_file"
			}
			refuse(w, r, http.StatusUnauthorized, why)
		}
	})
}

// isLocal reports whether a request came by the unix socket, which only the user of the
// service may open.
func (s *Server) isLocal(r *http.Request) bool {
	at, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return s.opt.Socket != "" && at != nil && at.Network() == "unix" && at.String() == s.opt.Socket
}

// isOpen reports whether a request is for a route that needs no token. A path that the mux
// would clean first does not count.
func (s *Server) isOpen(r *http.Request) bool {
	_, pattern := s.routes.Handler(r)
	return s.routes.rules[pattern] == public && path.Clean(r.URL.Path) == r.URL.Path
}

// addressOf returns the address of the client, without its port: the nearest address in the
// chain of proxies that is not a trusted proxy.
func (s *Server) addressOf(r *http.Request) string {
	address, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil { // a unix socket has "@"
		return "this machine"
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		before, err := netip.ParseAddr(strings.TrimSpace(hop))
		if err != nil || !s.isProxy(address) {
			break
		}
		address = before.String()
	}
	return address
}

// isProxy reports whether an address is that of a trusted proxy.
func (s *Server) isProxy(address string) bool {
	ip, _ := netip.ParseAddr(address)
	return slices.ContainsFunc(s.opt.Proxies, func(p netip.Prefix) bool { return p.Contains(ip.Unmap()) })
}
