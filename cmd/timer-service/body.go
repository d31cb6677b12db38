package main

import (
	"encoding/base64"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A shownBody is the body of a message as it is printed: text if it is UTF-8.
type shownBody struct {
	Body   *string `json:"body,omitempty"`
	Base64 *string `json:"bodyBase64,omitempty"` // if it is not UTF-8
	bytes  []byte
}

func showBody(body []byte) shownBody {
	s := shownBody{bytes: body}
	if utf8.Valid(body) {
		text := string(body)
		s.Body = &text
	} else {
		text := base64.StdEncoding.EncodeToString(body)
		s.Base64 = &text
	}
	return s
}

// readable reports whether the body can be printed as it is.
func (s shownBody) readable() bool {
	return s.Body != nil && strings.IndexFunc(*s.Body, func(r rune) bool {
		return !unicode.IsPrint(r) && r != '\n' && r != '\t'
	}) < 0
}

// kind says for people what text returns.
func (s shownBody) kind() string {
	if s.readable() {
		return fmt.Sprintf("%d bytes", len(s.bytes))
	}
	return fmt.Sprintf("%d bytes, in base64 since not all of them are printable", len(s.bytes))
}

// text returns the body for people: itself, or base64 in lines if it could upset
// a terminal.
func (s shownBody) text() string {
	if s.readable() {
		return *s.Body
	}
	const width = 76
	var b strings.Builder
	for text := base64.StdEncoding.EncodeToString(s.bytes); text != ""; {
		n := min(width, len(text))
		b.WriteString(text[:n] + "\n")
		text = text[n:]
	}
	return b.String()
}

// printable returns a text of somebody else's on one line, without what could
// upset a terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}

// short returns a text, printable, and cut to a width.
func short(text string, width int) string {
	if utf8.RuneCountInString(text) > width {
		text = string([]rune(text)[:width-1]) + "…"
	}
	return printable(text)
}
