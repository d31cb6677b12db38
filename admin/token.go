package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/time/rate"
)

const (
	wrongTokens = 10     // of an address, at once
	wrongRate   = 0.2    // and a second
	maxGuessers = 10_000 // addresses that are remembered
)

// Tokens compares tokens in constant time, and slows down who guesses.
type tokens struct {
	right [sha256.Size]byte
	none  bool // none is needed

	mu       sync.Mutex
	guessers map[string]*rate.Limiter // by address
}

func newTokens(token string) *tokens {
	return &tokens{right: sha256.Sum256([]byte(token)), none: token == "", guessers: make(map[string]*rate.Limiter)}
}

// status returns 200 if a token is right, 401 if it is not, and 429, whether it is
// right or not, if the address has sent too many that were wrong.
func (t *tokens) status(token, address string) int {
	if t.none {
		return http.StatusOK
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	guesser := t.guessers[address]
	if guesser != nil && guesser.Tokens() < 1 {
		return http.StatusTooManyRequests
	}
	got := sha256.Sum256([]byte(token))
	if subtle.ConstantTimeCompare(got[:], t.right[:]) == 1 {
		delete(t.guessers, address)
		return http.StatusOK
	}
	if token == "" {
		return http.StatusUnauthorized
	}
	if guesser == nil {
		if len(t.guessers) >= maxGuessers {
			clear(t.guessers)
		}
		guesser = rate.NewLimiter(wrongRate, wrongTokens)
		t.guessers[address] = guesser
	}
	guesser.Allow()
	return http.StatusUnauthorized
}

// authorize lets requests with the token pass, and those that ask for health.
func (s *Server) authorize(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/livez" || r.URL.Path == "/readyz" {
			next.ServeHTTP(w, r)
			return
		}
		token := ""
		if scheme, value, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
			token = strings.TrimSpace(value)
		}
		address, _, err := net.SplitHostPort(r.RemoteAddr)
		if err != nil {
			address = r.RemoteAddr
		}
		switch s.tokens.status(token, address) {
		case http.StatusUnauthorized:
			w.Header().Set("WWW-Authenticate", "Bearer")
			writeText(w, http.StatusUnauthorized, "a token is needed: send the header Authorization: Bearer, and the value of http_token\n")
		case http.StatusTooManyRequests:
			w.Header().Set("Retry-After", strconv.Itoa(int(1/wrongRate)))
			writeText(w, http.StatusTooManyRequests, "too many wrong tokens from this address: wait\n")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// quote returns text that came from a client, for people.
func quote(text string) string {
	if len(text) > 100 {
		text = text[:100]
	}
	return strconv.Quote(text)
}
