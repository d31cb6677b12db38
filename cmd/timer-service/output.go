package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/event-service-agent/timer-service/envelope"
)

// Forms of the output.
const (
	formatText = "text"
	formatJSON = "json"
)

// A result is what a verb prints: as lines for people, or marshaled as one
// JSON object on one line.
type result interface {
	text() string // one or more lines, the last without its end
}

// An output prints results.
type output struct {
	w    io.Writer // remembers its errors, so nobody else has to
	json bool      // whether for machines
}

// failed returns the first error of a write. Who prints for ever, or does what
// can't be undone, ends with it.
func (o output) failed() error {
	if c, ok := o.w.(*checked); ok {
		return c.failed()
	}
	return nil
}

// print prints one result.
func (o output) print(r result) {
	if o.json {
		o.line(r)
		return
	}
	fmt.Fprintln(o.w, r.text())
}

// line prints a value as one line of JSON.
func (o output) line(v any) {
	var b bytes.Buffer
	j := json.NewEncoder(&b)
	j.SetEscapeHTML(false)
	if err := j.Encode(v); err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err)) // a type of ours that cannot be encoded
	}
	_, _ = o.w.Write(escaped(b.Bytes())) // the writer remembers
}

// escaped returns JSON in which what could upset a terminal is escaped. The
// encoder has done so with most of it, but not with control characters beyond
// ASCII, or those that turn the direction of the text.
func escaped(line []byte) []byte {
	hostile := func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }
	if bytes.IndexFunc(line, hostile) < 0 {
		return line
	}
	var out []byte
	for _, r := range string(line) {
		if !hostile(r) {
			out = utf8.AppendRune(out, r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			out = fmt.Appendf(out, `\u%04x`, unit)
		}
	}
	return out
}

// A stamp is a time as messages carry it. The zero stamp stands for none.
type stamp time.Time

// IsZero reports whether there is no time.
func (s stamp) IsZero() bool { return time.Time(s).IsZero() }

// MarshalText returns RFC 3339 in UTC with milliseconds.
func (s stamp) MarshalText() ([]byte, error) { return []byte(envelope.FormatTime(time.Time(s))), nil }

// String returns the same, or "-" if there is no time.
func (s stamp) String() string {
	if s.IsZero() {
		return "-"
	}
	return envelope.FormatTime(time.Time(s))
}

// orDash returns s, or "-" if it is empty.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// A checked writer remembers its first error and then writes nothing more.
type checked struct {
	mu  sync.Mutex
	w   io.Writer
	err error
}

// Write writes p, or nothing after an error. It may be called concurrently.
func (c *checked) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.w.Write(p)
	c.err = err
	return n, err
}

// failed returns the first error of a Write.
func (c *checked) failed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// parts turns lines, "part  what it is", into JSON objects. Each Write must be
// whole lines.
type parts struct{ out output }

// Write prints one object a line.
func (p parts) Write(lines []byte) (int, error) {
	for line := range bytes.Lines(lines) {
		part, text, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		p.out.line(struct {
			Part string `json:"part"`
			Text string `json:"text,omitempty"`
		}{part, strings.TrimSpace(text)})
	}
	return len(lines), nil
}
