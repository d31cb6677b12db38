package config

import (
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
)

// hidden is printed instead of a secret.
const hidden = "***"

// A Secret is text that must not be printed: however it is formatted, logged
// or marshaled it reads "***", inside other values too. The zero value is the
// empty secret, which reads as nothing.
type Secret struct {
	// A pointer, since package fmt shows the text of a string in a field that
	// is not exported, but of a pointer only the address.
	text *string
}

// NewSecret returns text as a Secret.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{text: &text}
}

// Reveal returns the text: call it where the secret is used, and nowhere else.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// Empty reports whether there is no text.
func (s Secret) Empty() bool { return s.text == nil }

// Equal reports whether both have the same text.
func (s Secret) Equal(o Secret) bool { return s.Reveal() == o.Reveal() }

// String returns "***", or "" if s is empty.
func (s Secret) String() string {
	if s.Empty() {
		return ""
	}
	return hidden
}

// Format writes what String returns, whatever the verb.
func (s Secret) Format(w fmt.State, _ rune) { _, _ = io.WriteString(w, s.String()) }

// MarshalText returns what String does.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue returns what String does.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// URL returns what may be shown of a URL, or of several with commas between
// them: schemes, hosts and whether there are credentials. Kafka's may be a host with its
// port. A text that is anything else reads "***".
func (s Secret) URL() string {
	if s.Empty() {
		return ""
	}
	var shown []string
	for part := range strings.SplitSeq(s.Reveal(), ",") {
		part = strings.TrimSpace(part)
		if hostPortPattern.MatchString(part) {
			shown = append(shown, part)
			continue
		}
		u, err := url.Parse(part)
		// An @ outside the credentials means that a character of a password
		// was not escaped, and that what parsed as a host is a piece of it.
		if err != nil || u.Scheme == "" || u.Host == "" || u.Opaque != "" ||
			strings.Contains(u.Path+u.RawQuery+u.Fragment, "@") {
			return hidden
		}
		at := ""
		if u.User != nil {
			at = hidden + "@"
		}
		shown = append(shown, u.Scheme+"://"+at+u.Host)
	}
	return strings.Join(shown, ",")
}
