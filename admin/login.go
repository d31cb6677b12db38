package admin

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"html/template"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/event-service-agent/timer-service/config"
)

const (
	sessionCookie = "timer_session"
	sessionAge    = 12 * time.Hour
)

// Sessions seals the token that was shown on the login page, and the end of the session, into a
// cookie, under a key made from http_token: each instance with that token opens it, and none keeps
// anything. A session also ends when its token is no longer valid.
type sessions struct{ seal cipher.AEAD }

// newSessions returns the sessions under a token. From a token that can be guessed no key is made,
// since whoever has a cookie could try all such tokens: then a login is good for one instance.
func newSessions(token string) sessions {
	if len(token) < config.MinToken {
		token = rand.Text()
	}
	key := hashOf(sessionCookie + " " + token)
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // the length of the key is right
	}
	seal, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // that of the block is, too
	}
	return sessions{seal}
}

// begin returns the value of a cookie for a new session.
func (s sessions) begin(token tokenHash, now time.Time) string {
	end := binary.BigEndian.AppendUint64(nil, uint64(now.Add(sessionAge).Unix())) //nolint:gosec // after 1970
	return base64.RawURLEncoding.EncodeToString(s.seal.Seal(nil, nil, append(end, token[:]...), nil))
}

// of returns the token that the session of a request stands for.
func (s sessions) of(r *http.Request) (token tokenHash, ok bool) {
	cookie, err := r.Cookie(sessionCookie)
	if err != nil {
		return token, false
	}
	sealed, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err != nil {
		return token, false
	}
	text, err := s.seal.Open(nil, nil, sealed, nil)
	if err != nil || len(text) != 8+len(token) {
		return token, false
	}
	copy(token[:], text[8:])
	return token, time.Now().Unix() < int64(binary.BigEndian.Uint64(text)) //nolint:gosec // as it was written
}

// setCookie sets the cookie of a session. Only this server gets it back, and only from its
// own pages.
func (s *Server) setCookie(w http.ResponseWriter, r *http.Request, value string, age time.Duration) {
	http.SetCookie(w, &http.Cookie{
		Name: sessionCookie, Value: value, Path: s.opt.Prefix + "/", MaxAge: int(age / time.Second),
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: s.isOverTLS(r),
	})
}

// isOverTLS reports whether the browser has sent a request over TLS, as far as http_origin or a
// trusted proxy says so: anyone may send a header.
func (s *Server) isOverTLS(r *http.Request) bool {
	from, _, _ := net.SplitHostPort(r.RemoteAddr)
	return r.TLS != nil || strings.HasPrefix(s.opt.Origin, "https:") || s.isProxy(from) && r.Header.Get("X-Forwarded-Proto") == "https"
}

// loginPage is a form that works without scripts and without its style sheet.
var loginPage = template.Must(template.New("login").Parse(`<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Log in · timer service</title>
<link rel="icon" href="{{.Web}}/icon.svg"><link rel="stylesheet" href="{{.Web}}/style.css"></head>
<body>
<main>
<h1>Timer service</h1>
{{with .Wrong}}<p role="alert">{{.}}</p>{{end}}
<form method="post" action="{{.Action}}">
<p><label for="token">Token, the value of http_token or that of a tenant</label></p>
<p><input type="password" id="token" name="token" autocomplete="current-password" required autofocus> <button>Log in</button></p>
<input type="hidden" name="next" value="{{.Next}}">
</form>
</main>
</body>
</html>
`))

// showLogin shows the form.
func (s *Server) showLogin(w http.ResponseWriter, r *http.Request) {
	if s.tokens.none {
		http.Redirect(w, r, s.opt.Prefix+"/", http.StatusSeeOther)
		return
	}
	s.writeLogin(w, http.StatusOK, "", r.URL.Query().Get("next"))
}

func (s *Server) writeLogin(w http.ResponseWriter, code int, wrong, next string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_ = loginPage.Execute(w, struct{ Wrong, Action, Next, Web string }{wrong, s.opt.Prefix + "/login", s.local(next), s.opt.Prefix + "/web"}) // fails if the client has gone
}

// login begins a session if the token of the form is right.
func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	token, next := strings.TrimSpace(r.PostFormValue("token")), s.local(r.PostFormValue("next"))
	switch s.tokens.status(token, s.addressOf(r)) {
	case http.StatusOK:
		s.setCookie(w, r, s.sessions.begin(hashOf(token), time.Now()), sessionAge)
		http.Redirect(w, r, next, http.StatusSeeOther)
	case http.StatusTooManyRequests:
		w.Header().Set("Retry-After", strconv.Itoa(int(1/wrongRate)))
		s.writeLogin(w, http.StatusTooManyRequests, "Too many wrong tokens from this address: wait some seconds.", next)
	default:
		s.writeLogin(w, http.StatusUnauthorized, "This token is wrong.", next)
	}
}

// logout has the browser forget the session.
func (s *Server) logout(w http.ResponseWriter, r *http.Request) {
	s.setCookie(w, r, "", -time.Second)
	http.Redirect(w, r, s.opt.Prefix+"/login", http.StatusSeeOther)
}

// local returns next if it is a path on this server, and the path of the first page otherwise.
func (s *Server) local(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || strings.ContainsAny(next, "\\\r\n\t") {
		return s.opt.Prefix + "/"
	}
	return next
}
