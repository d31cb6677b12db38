package config

import (
	"encoding"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A binding ties a setting to its field of [Config].
type binding struct {
	form   string                             // which values it takes, for people
	secret bool                               // whether its value is never shown
	set    func(c *Config, text string) error // the error is the fix, without the value
	show   func(c Config) string              // the value as a user would write it, without secrets
}

// Whether a setting may be empty.
const (
	optional = false
	required = true
)

func duration(field func(*Config) *time.Duration, least, most time.Duration) binding {
	form := fmt.Sprintf("a duration from %s to %s", FormatDuration(least), FormatDuration(most))
	return binding{
		form: form,
		set: func(c *Config, text string) error {
			d, err := ParseDuration(text)
			if err != nil || d < least || d > most {
				return errors.New("must be " + form + ", such as 5000 (milliseconds), 30s or 7d")
			}
			*field(c) = d
			return nil
		},
		show: func(c Config) string { return FormatDuration(*field(&c)) },
	}
}

func size(field func(*Config) *int64, least, most int64) binding {
	form := fmt.Sprintf("a size from %s to %s", FormatSize(least), FormatSize(most))
	return binding{
		form: form,
		set: func(c *Config, text string) error {
			n, err := ParseSize(text)
			if err != nil || n < least || n > most {
				return errors.New("must be " + form + ", such as 512MiB or 8GiB")
			}
			*field(c) = n
			return nil
		},
		show: func(c Config) string { return FormatSize(*field(&c)) },
	}
}

func integer(field func(*Config) *int, least, most int) binding {
	form := fmt.Sprintf("a whole number from %d to %d", least, most)
	return binding{
		form: form,
		set: func(c *Config, text string) error {
			n, err := strconv.Atoi(text)
			if err != nil || n < least || n > most {
				return errors.New("must be " + form)
			}
			*field(c) = n
			return nil
		},
		show: func(c Config) string { return strconv.Itoa(*field(&c)) },
	}
}

// choice is one of a few values.
func choice[T comparable](field func(*Config) *T, values []T) binding {
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = nameOf(v)
	}
	form := oneOf(names)
	return binding{
		form: form,
		set: func(c *Config, text string) error {
			i := slices.Index(names, strings.ToLower(text))
			if i < 0 {
				return errors.New("must be " + form)
			}
			*field(c) = values[i]
			return nil
		},
		show: func(c Config) string { return nameOf(*field(&c)) },
	}
}

// nameOf returns the name of a choice in lower case.
func nameOf(v any) string {
	if m, ok := v.(encoding.TextMarshaler); ok {
		if text, err := m.MarshalText(); err == nil {
			return strings.ToLower(string(text))
		}
	}
	return strings.ToLower(fmt.Sprint(v))
}

// oneOf joins names as a sentence does: "a, b or c".
func oneOf(names []string) string {
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

func path(field func(*Config) *string, required bool) binding {
	return text(field, "a path", func(s string) error {
		switch {
		case s == "" && required:
			return errors.New("must be a path")
		case strings.HasPrefix(s, ":memory:"), strings.HasPrefix(s, "file:"), strings.Contains(s, "://"):
			return errors.New("must be the path of a file, not :memory: and not a URL")
		}
		return nil
	})
}

func topic(field func(*Config) *string) binding {
	return text(field, "a topic", func(s string) error {
		if len(s) > 200 || strings.ContainsAny(s, " /") {
			return errors.New("must be a topic of at most 200 characters, without spaces and slashes")
		}
		return nil
	})
}

func exchange(field func(*Config) *string) binding {
	const form = "1 to 200 visible characters, not beginning with \"amq.\""
	pattern := regexp.MustCompile(`^[!-~]{1,200}$`)
	return text(field, form, func(s string) error {
		if !pattern.MatchString(s) || strings.HasPrefix(s, "amq.") {
			return errors.New("must be " + form)
		}
		return nil
	})
}

func word(field func(*Config) *string) binding {
	const form = "1 to 32 characters of A-Z a-z 0-9 _ -"
	pattern := regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`)
	return text(field, form, func(s string) error {
		if !pattern.MatchString(s) {
			return errors.New("must be " + form)
		}
		return nil
	})
}

// words are one word or several with dots between them; empty is none.
func words(field func(*Config) *string) binding {
	const form = "words of A-Z a-z 0-9 _ - with dots between them, 64 characters at most"
	pattern := regexp.MustCompile(`^([A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*)?$`)
	return text(field, form, func(s string) error {
		if len(s) > 64 || !pattern.MatchString(s) {
			return errors.New("must be " + form)
		}
		return nil
	})
}

func text(field func(*Config) *string, form string, check func(string) error) binding {
	return binding{
		form: form,
		set: func(c *Config, text string) error {
			if err := check(text); err != nil {
				return err
			}
			*field(c) = text
			return nil
		},
		show: func(c Config) string { return *field(&c) },
	}
}

// sasl is a way to log in to Kafka; empty is none.
func sasl(field func(*Config) *string) binding {
	names := []string{"plain", "scram-sha-256", "scram-sha-512"}
	return text(field, oneOf(names), func(s string) error {
		if s != "" && !slices.Contains(names, s) {
			return errors.New("must be " + oneOf(names))
		}
		return nil
	})
}

// urls is one URL or several with commas between them. Errors of package url
// hold the text, so they are not passed on.
func urls(field func(*Config) *Secret, schemes ...string) binding {
	form := "URLs with the scheme " + oneOf(schemes)
	hostPort := regexp.MustCompile(`^([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}$`)
	valid := func(part string) bool {
		part = strings.TrimSpace(part)
		if hostPort.MatchString(part) { // which some brokers take
			return true
		}
		u, err := url.Parse(part)
		return err == nil && u.Host != "" && slices.Contains(schemes, u.Scheme)
	}
	return binding{
		form:   form,
		secret: true,
		set: func(c *Config, text string) error {
			if text != "" && slices.ContainsFunc(strings.Split(text, ","), func(part string) bool { return !valid(part) }) {
				return errors.New("must be " + form + ", such as " + schemes[0] + "://host, with commas between several")
			}
			*field(c) = NewSecret(text)
			return nil
		},
		show: func(c Config) string { return field(&c).URL() },
	}
}

// uriReference is one as CloudEvents need it.
func uriReference(field func(*Config) *string) binding {
	const form = "a URI-reference (RFC 3986) of 1 to 256 characters"
	pattern := regexp.MustCompile(`^([A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2}){1,256}$`)
	return text(field, form, func(s string) error {
		u, err := url.Parse(s)
		if err != nil || u.User != nil || len(s) > 256 || !pattern.MatchString(s) {
			return errors.New("must be " + form + " without a user, such as /timers or urn:example:timers")
		}
		return nil
	})
}

// anyText is text that nothing is known about.
func anyText(field func(*Config) *string) binding {
	return text(field, "text", func(string) error { return nil })
}

// secret is text that is never shown.
func secret(field func(*Config) *Secret) binding {
	return binding{
		form:   "text",
		secret: true,
		set: func(c *Config, text string) error {
			*field(c) = NewSecret(text)
			return nil
		},
		show: func(c Config) string { return field(&c).String() },
	}
}

// database is the URL of a database. What is behind the scheme is left to its
// driver, which knows several hosts, sockets and parameters.
func database(field func(*Config) *Secret, schemes ...string) binding {
	form := "a URL with the scheme " + oneOf(schemes)
	return binding{
		form:   form,
		secret: true,
		set: func(c *Config, text string) error {
			scheme, rest, _ := strings.Cut(text, "://")
			if text != "" && (rest == "" || !slices.Contains(schemes, scheme)) {
				return errors.New("must be " + form + ", such as " + schemes[0] + "://user:password@host/database")
			}
			*field(c) = NewSecret(text)
			return nil
		},
		show: func(c Config) string { return field(&c).URL() },
	}
}
