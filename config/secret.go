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

// A Secret is text that must not be printed: it is formatted, logged and marshaled as "***",
// even inside other values. The zero value is the empty secret, which is printed as "".
type Secret struct {
	// It is a pointer because package fmt shows the text of a string in an unexported field,
	// but only the address of a pointer.
	text *string
}

// NewSecret returns text as a Secret.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{text: &text}
}

// Reveal returns the text. Call it only where the secret is used.
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

// MarshalText returns the text of String.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue returns the text of String.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// URL returns the public parts of a URL, or of several with commas between them: schemes,
// hosts and whether there are credentials. A server of Kafka may be a host with its port. Any
// other text becomes "***".
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
		// An @ outside the credentials means that a character of a password was not escaped.
		// Then the parsed host is a piece of the password.
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
