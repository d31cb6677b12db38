package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// These are the formats of the output.
const (
	formatText = "text"
	formatJSON = "json"
)

// An output prints results.
type output struct {
	w    io.Writer // keeps its first error, so that callers need not check
	json bool      // print JSON for machines
}

// failed returns the first error of a write. A verb must check it if it prints without end,
// or does something that can't be undone.
func (o output) failed() error {
	if c, ok := o.w.(*errorWriter); ok {
		return c.failed()
	}
	return nil
}

// print prints a result: for machines as one JSON object on one line, for people as one or more
// lines, the last of which lacks its end.
func (o output) print(result any, text string) {
	if o.json {
		o.line(result)
		return
	}
	fmt.Fprintln(o.w, text)
}

// line prints a value as one line of JSON.
func (o output) line(v any) {
	var b bytes.Buffer
	j := json.NewEncoder(&b)
	j.SetEscapeHTML(false)
	if err := j.Encode(v); err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err)) // a mistake in one of our types
	}
	_, _ = o.w.Write(escaped(b.Bytes())) // the writer keeps the error
}

// escaped returns JSON in which each character that is not printable is escaped, to protect
// terminals. The encoder escapes control characters of ASCII, but not others, nor the
// characters that change the direction of the text.
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

// printable returns a foreign text on one line, with a question mark for each character that
// a terminal might interpret.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// short returns a foreign text, printable, and cut to a width.
func short(s string, width int) string { return text.Snip(printable(s), width, "…") }

// fields formats pairs of a name and a value for people, one pair on each line. Values that
// are empty are left out. A value without a name is lines of its own, which are printable.
func fields(pairs ...any) string {
	var lines []string
	for pair := range slices.Chunk(pairs, 2) {
		switch value := fmt.Sprint(pair[1]); {
		case value == "":
		case pair[0] == "":
			lines = append(lines, strings.TrimPrefix(value, "\n"))
		default:
			lines = append(lines, fmt.Sprintf("%-14s %s", pair[0], printable(value)))
		}
	}
	return strings.Join(lines, "\n")
}

// A rows prints results one by one: for machines as objects at once, for people as a table at
// the end.
type rows struct {
	out   output
	table table.Writer
}

// rows returns rows with the headers of the table. The table has no borders, so that awk can
// split it. Columns of numbers are aligned to the right.
func (o output) rows(headers ...any) *rows {
	t := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	var right []table.ColumnConfig
	for _, name := range []string{"fired late", "overdue"} {
		right = append(right, table.ColumnConfig{Name: name, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.SetColumnConfigs(right)
	t.AppendHeader(headers)
	return &rows{o, t}
}

// add prints v as JSON, or adds the cells to the table. An empty cell is a dash, so that each
// row has the same number of words.
func (r *rows) add(v any, cells ...any) {
	if r.out.json {
		r.out.line(v)
		return
	}
	for i, cell := range cells {
		if fmt.Sprint(cell) == "" {
			cells[i] = "-"
		}
	}
	r.table.AppendRow(cells)
}

// end prints the table. It tells people if the table is empty, or where the next page begins.
func (r *rows) end(e *env, empty, next string) {
	switch {
	case r.out.json:
	case r.table.Length() == 0:
		if empty != "" {
			fmt.Fprintln(e.stderr, empty)
		}
	default:
		fmt.Fprintln(r.out.w, r.table.Render())
		if next != "" {
			fmt.Fprintln(e.stderr, "there may be more: --after "+next)
		}
	}
}

// An errorWriter keeps its first error and then writes nothing more.
type errorWriter struct {
	mu  sync.Mutex
	w   io.Writer
	err error
}

// Write writes p, or nothing after an error. It is safe for concurrent use.
func (c *errorWriter) Write(p []byte) (int, error) {
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
func (c *errorWriter) failed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}
