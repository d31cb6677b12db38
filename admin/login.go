package admin

import (
	"crypto/rand"
	"html/template"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	sessionCookie = "timer_session"
	sessionAge    = 12 * time.Hour
	maxSessions   = 20 // of one token, so that no token ends the sessions of another one
)

// A session stands for a token that was shown on the login page. It ends when the
// token is no longer valid.
type session struct {
	id      tokenHash // hash of the cookie's value
	token   tokenHash
	expires time.Time
}

// Sessions are kept in memory: a restart ends them.
type sessions struct {
	mu  sync.Mutex
	all []session // in the order in which they began
}

// begin returns the value of a cookie for a new session. If the token has too many sessions,
// its oldest one ends.
func (s *sessions) begin(token tokenHash, now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := maxSessions - 1
	for i, one := range slices.Backward(s.all) {
		if one.token != token {
			continue
		}
		if left--; left < 0 {
			s.all = slices.Delete(s.all, i, i+1)
			break
		}
	}
	value := rand.Text()
	s.all = append(s.all, session{hashOf(value), token, now.Add(sessionAge)})
	return value
}

// of returns the token that the session of a request stands for.
func (s *sessions) of(r *http.Request) (token tokenHash, ok bool) {
	id, now := sessionID(r), time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.all, func(one session) bool { return one.id == id && now.Before(one.expires) })
	if i < 0 {
		return tokenHash{}, false
	}
	return s.all[i].token, true
}

// end ends the session of a request.
func (s *sessions) end(r *http.Request) {
	id := sessionID(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(s.all, func(one session) bool { return one.id == id })
}

// sessionID returns the id of the session that a request names, or the zero hash, which no
// session has.
func sessionID(r *http.Request) tokenHash {
	cookie, err := r.Cookie(sessionCookie)
	if err != nil {
		return tokenHash{}
	}
	return hashOf(cookie.Value)
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

// logout ends the session.
func (s *Server) logout(w http.ResponseWriter, r *http.Request) {
	s.sessions.end(r)
	s.setCookie(w, r, "", -time.Second)
	http.Redirect(w, r, s.opt.Prefix+"/login", http.StatusSeeOther)
}

// local returns next if it is a path on this server, else the first page.
func (s *Server) local(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || strings.ContainsAny(next, "\\\r\n\t") {
		return s.opt.Prefix + "/"
	}
	return next
}
