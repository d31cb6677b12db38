package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/event-service-agent/timer-service/envelope"
)

// A value reads the text of a setting into a field, and shows it.
type value struct {
	form   string   // which texts are valid, for people
	names  []string // all valid texts, if they are few
	secret bool     // never show the value
	empty  bool     // an empty text is a value, and not the default
	set    func(text string) error
	show   func() string // returns the value as a user would write it, without secrets
}

// parsed is a value of any type. Parse reports whether a text is valid. If not, the error
// says that the text must be of the form, followed by the hint.
func parsed[T any](field *T, form, hint string, parse func(string) (T, bool), show func(T) string) value {
	return value{
		form: form,
		set: func(text string) error {
			v, ok := parse(text)
			if !ok {
				return errors.New("must be " + form + hint)
			}
			*field = v
			return nil
		},
		show: func() string { return show(*field) },
	}
}

// between is a value from least to most.
func between[T cmp.Ordered](field *T, kind, hint string, least, most T, parse func(string) (T, error), show func(T) string) value {
	form := fmt.Sprintf("%s from %s to %s", kind, show(least), show(most))
	return parsed(field, form, hint, func(text string) (T, bool) {
		v, err := parse(text)
		return v, err == nil && v >= least && v <= most
	}, show)
}

func duration(field *time.Duration, least, most time.Duration) value {
	return between(field, "a duration", ", such as 5000 (milliseconds), 30s or 7d", least, most, ParseDuration, FormatDuration)
}

func size(field *int64, least, most int64) value {
	return between(field, "a size", ", such as 512MiB or 8GiB", least, most, func(text string) (int64, error) {
		n, err := humanize.ParseBytes(text)
		return int64(n), err //nolint:gosec // a size that wraps around is out of range
	}, FormatSize)
}

func integer(field *int, least, most int) value {
	return between(field, "a whole number", "", least, most, strconv.Atoi, strconv.Itoa)
}

// choice is a value out of a few.
func choice[T comparable](field *T, values ...T) value {
	name := func(v T) string { return strings.ToLower(fmt.Sprint(v)) }
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = name(v)
	}
	v := parsed(field, oneOf(names), "", func(text string) (v T, ok bool) {
		if i := slices.Index(names, strings.ToLower(text)); i >= 0 {
			return values[i], true
		}
		return v, false
	}, name)
	v.names = names
	return v
}

// oneOf joins names as in a sentence: "a, b or c".
func oneOf(names []string) string {
	last := len(names) - 1
	if last <= 0 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// text is a string with a check.
func text(field *string, form, hint string, valid func(string) bool) value {
	same := func(s string) string { return s }
	return parsed(field, form, hint, func(s string) (string, bool) { return s, valid(s) }, same)
}

// anyForm is the form of a value that may be any text.
const anyForm = "text"

func anyText(field *string) value {
	return text(field, anyForm, "", func(string) bool { return true })
}

func path(field *string) value {
	return text(field, "a path", " of a file, not :memory: and not a URL", func(s string) bool {
		return !strings.HasPrefix(s, ":memory:") && !strings.HasPrefix(s, "file:") && !strings.Contains(s, "://")
	})
}

func topic(field *string) value {
	return text(field, "a topic", " of at most 200 characters, without spaces, slashes and wildcards, and with {tenant} at most once", func(s string) bool {
		return len(s) <= 200 && !strings.ContainsAny(strings.Replace(s, "{tenant}", "", 1), "{}*> \t\r\n/")
	})
}

var (
	exchangePattern = regexp.MustCompile(`^[!-~]{1,200}$`)
	wordPattern     = regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`)
	wordsPattern    = regexp.MustCompile(`^([A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*)?$`)
	prefixPattern   = regexp.MustCompile(`^((/[A-Za-z0-9_-][A-Za-z0-9._-]*){1,8})?$`)
	saslPattern     = regexp.MustCompile(`^(plain|scram-sha-256|scram-sha-512)?$`)
	hostPortPattern = regexp.MustCompile(`^([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}$`)
)

func exchange(field *string) value {
	return text(field, `1 to 200 visible characters, not beginning with "amq."`, "", func(s string) bool {
		return exchangePattern.MatchString(s) && !strings.HasPrefix(s, "amq.")
	})
}

// words is one word, or several with dots between them; "" is none.
func words(field *string) value {
	return text(field, "words of A-Z a-z 0-9 _ - with dots between them, at most 64 characters", "", func(s string) bool {
		return len(s) <= 64 && wordsPattern.MatchString(s)
	})
}

// uriReference is a URI-reference as CloudEvents need it.
func uriReference(field *string) value {
	return text(field, "a URI-reference (RFC 3986) of 1 to 256 characters", " without a user, such as /timers or urn:example:timers", func(s string) bool {
		u, _ := url.Parse(s)
		return envelope.ValidateSource(s) == nil && u.User == nil && len(s) <= 256
	})
}

// secret is a text whose public parts show returns. Errors of package url contain the text,
// so none is passed on.
func secret(field *Secret, form, hint string, valid func(string) bool, show func(Secret) string) value {
	v := parsed(field, form, hint, func(s string) (Secret, bool) { return NewSecret(s), s == "" || valid(s) }, show)
	v.secret = true
	return v
}

func password(field *Secret) value {
	return secret(field, anyForm, "", func(string) bool { return true }, Secret.String)
}

// withSecret matches a URL that holds a password, or a token in place of a user.
var withSecret = regexp.MustCompile(`://[^@]*:[^@]*@|(nats|tls|wss?)://[^@/]*@|[?&](ssl)?password=`)

// isSecret reports whether a text must not be seen. A URL without a password may be.
func (v value) isSecret(text string) bool {
	return v.secret && text != "" && (v.form == anyForm || withSecret.MatchString(text))
}

// urls is one URL, or several with commas between them. Some brokers accept a host and a port
// without a scheme.
func urls(field *Secret, schemes ...string) value {
	hint := ", such as " + schemes[0] + "://host, with commas between several"
	return secret(field, "URLs with the scheme "+oneOf(schemes), hint, func(text string) bool {
		for part := range strings.SplitSeq(text, ",") {
			part = strings.TrimSpace(part)
			u, err := url.Parse(part)
			if !hostPortPattern.MatchString(part) && (err != nil || u.Host == "" || !slices.Contains(schemes, u.Scheme)) {
				return false
			}
		}
		return true
	}, Secret.URL)
}

// isHTTP reports whether a text is a URL of an HTTP server.
func isHTTP(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// server is the URL of an HTTP server.
func server(field *Secret) value {
	return secret(field, "a URL", ", such as http://timers.example:8080", isHTTP, Secret.URL)
}

// database is the URL of a database. The rest after the scheme is left to the driver, which
// knows several hosts, sockets and parameters.
func database(field *Secret, schemes ...string) value {
	hint := ", such as " + schemes[0] + "://user:password@host/database"
	return secret(field, "a URL with the scheme "+oneOf(schemes), hint, func(text string) bool {
		scheme, rest, _ := strings.Cut(text, "://")
		return rest != "" && slices.Contains(schemes, scheme)
	}, Secret.URL)
}
