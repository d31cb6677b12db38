package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/format"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// TestDocs checks each page: its links, its commands of this program, and that
// its JSON, YAML and Go can be parsed.
func TestDocs(t *testing.T) {
	t.Parallel()
	mistakes, commands, links := checkDocs(t, os.DirFS("../.."))
	for _, mistake := range mistakes {
		t.Error(mistake)
	}
	if commands < 40 || links < 150 {
		t.Errorf("found %d commands and %d links, fewer than the pages have", commands, links)
	}
}

// What the test above would say of pages with mistakes.
func TestDocsThatAreWrong(t *testing.T) {
	t.Parallel()
	lines := []string{
		"# One", "## Two words, `code`", "## One",
		"[fine](#one) [fine](#two-words-code) [fine](#one-1) [fine](b/other.md#there) [fine](b) [fine](https://nowhere) `[no](link)`",
		"[1](gone.md) [2](#gone) [3](b/other.md#gone) [a `nested` one](b/gone.svg)",
		"`timer-service get`, `timer-service get acme order-1`, `TIMER_BROKER=nats timer-service list --gone`, `go run ./cmd/timer-service gone`",
		"```sh", "# [no](link)", "echo x | timer-service publish -", "timer-service get acme |\\", "  jq", "./timer-service dlq list --since 'soon'", "```",
		"```json", `{"fine":1}`, "```", "```json", "{", "```",
		"```yaml", "fine: 1", "```", "```yaml", "a: [", "```",
		"```go", "fine := 1", "```", "```go", "if {", "```", "```go", "x:=1", "```",
		"", "    timer-service version --gone",
		"```", "timer-service get acme", "```",
		"```sh",
	}
	docs := fstest.MapFS{
		"a.md":                 {Data: []byte(strings.Join(lines, "\n"))},
		"b/other.md":           {Data: []byte("# There\n[up](../a.md#one) [gone](a.md)")},
		"node_modules/this.md": {Data: []byte("[gone](gone)")},
	}
	got, _, _ := checkDocs(t, docs)
	want := []string{
		"a.md:5: gone.md does not exist",
		"a.md:5: #gone is no heading",
		"a.md:5: b/other.md#gone is no heading",
		"a.md:5: b/gone.svg does not exist",
		"a.md:6: timer-service list --gone: unknown flag --gone",
		"a.md:6: timer-service gone",
		"a.md:10: timer-service get acme",
		"a.md:12: timer-service dlq list --since 'soon'",
		"a.md:17: json", "a.md:23: yaml", "a.md:29: go", "a.md:32: go: not as gofmt has it",
		"a.md:36: timer-service version --gone",
		"a.md:37: : a block without a language",
		"a.md:40: a block that does not end",
		"b/other.md:2: a.md does not exist",
	}
	begins := cmp.Comparer(func(a, b string) bool { return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) })
	if diff := cmp.Diff(want, got, begins); diff != "" {
		t.Errorf("mistakes (-want +got):\n%s", diff)
	}
}

// TestDocsAreReachable follows links from the start page: every page is at most two
// steps away.
func TestDocsAreReachable(t *testing.T) {
	t.Parallel()
	d := readDocs(t, os.DirFS("../.."))
	far := maps.Clone(d.pages)
	const start = "docs/README.md"
	delete(far, start)
	delete(far, ".github/pull_request_template.md") // GitHub shows it to those who need it
	reached := []string{start}
	for range 2 {
		for _, from := range reached {
			for _, line := range d.pages[from].text {
				for _, link := range linkTargets.FindAllStringSubmatch(spans.ReplaceAllString(line, ""), -1) {
					target, _, _ := strings.Cut(link[1], "#")
					name := path.Join(path.Dir(from), target)
					if path.Ext(name) != ".md" {
						name = path.Join(name, "README.md")
					}
					if _, is := far[name]; is {
						delete(far, name)
						reached = append(reached, name)
					}
				}
			}
		}
	}
	for name := range far {
		t.Errorf("%s is more than two steps from %s", name, start)
	}
}

// A docs checks the pages below a folder.
type docs struct {
	files    fs.FS
	pages    map[string]page
	mistakes []string

	commands, links int // how many were checked
}

// A page is what a Markdown file holds.
type page struct {
	text     []string        // its lines; those of blocks are empty
	blocks   []block         // fenced and indented ones
	headings map[string]bool // as anchors
}

// A block is lines of code.
type block struct {
	line     int // of its first line, or of its fence
	language string
	lines    []string
	open     bool // the page ends before it does
}

// checkDocs returns the mistakes of all pages, and how many commands and links they
// have.
func checkDocs(t *testing.T, files fs.FS) (mistakes []string, commands, links int) {
	t.Helper()
	d := readDocs(t, files)
	for _, name := range slices.Sorted(maps.Keys(d.pages)) {
		for i, line := range d.pages[name].text {
			d.checkLine(fmt.Sprintf("%s:%d", name, i+1), path.Dir(name), line, d.pages[name])
		}
		for _, b := range d.pages[name].blocks {
			d.checkBlock(name, b)
		}
	}
	return d.mistakes, d.commands, d.links
}

func readDocs(t *testing.T, files fs.FS) *docs {
	t.Helper()
	d := &docs{files: files, pages: make(map[string]page)}
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == ".git"):
			return fs.SkipDir
		case path.Ext(name) != ".md":
			return nil
		}
		text, err := fs.ReadFile(files, name)
		d.pages[name] = readPage(string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func readPage(text string) page {
	p := page{text: strings.Split(text, "\n"), headings: make(map[string]bool)}
	var now *block // nil outside of blocks
	blank := true  // the line before is empty, so that an indented one begins a block
	for i, line := range p.text {
		fence, fenced := strings.CutPrefix(line, "```")
		code, indented := strings.CutPrefix(line, "    ")
		switch {
		case now != nil && now.open && fenced:
			now.open, now = false, nil
		case now != nil && now.open:
			now.lines = append(now.lines, line)
		case fenced:
			p.blocks = append(p.blocks, block{line: i + 1, language: fence, open: true})
			now = &p.blocks[len(p.blocks)-1]
		case indented && now != nil:
			now.lines = append(now.lines, code)
		case indented && blank:
			p.blocks = append(p.blocks, block{line: i, language: "sh", lines: []string{code}})
			now = &p.blocks[len(p.blocks)-1]
		default:
			now = nil
			if title := strings.TrimLeft(line, "#"); title != line && strings.HasPrefix(title, " ") {
				anchor := anchorOf(title)
				for n := 1; p.headings[anchor]; n++ {
					anchor = fmt.Sprintf("%s-%d", anchorOf(title), n)
				}
				p.headings[anchor] = true
			}
			blank = line == ""
			continue
		}
		p.text[i], blank = "", true
	}
	return p
}

// anchorOf returns what GitHub makes of the title of a heading.
func anchorOf(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(title))
}

var (
	spans       = regexp.MustCompile("`[^`]*`")
	linkTargets = regexp.MustCompile(`\]\(([^)\s]*)\)`)
	// Commands of the program begin a line, follow a pipe, or stand after a prompt,
	// variables and "go run".
	programCall    = regexp.MustCompile(`(?:^|[|;&]|\$ )\s*(?:[A-Z_]+=\S+\s+)*(?:go run )?(?:\./(?:cmd/)?)?timer-service +([^|;&<>#]+)`)
	lacksArguments = regexp.MustCompile(`^expected "<|: needs a value$`)
	words          = regexp.MustCompile(`(?:'[^']*'|"[^"]*"|[^\s'"])+`)
)

// checkLine checks the links of a line, and the commands in its code spans. At says
// where it is, for people.
func (d *docs) checkLine(at, folder, line string, p page) {
	for _, span := range spans.FindAllString(line, -1) {
		d.checkCommands(at, strings.Trim(span, "`"), true)
	}
	for _, link := range linkTargets.FindAllStringSubmatch(spans.ReplaceAllString(line, ""), -1) {
		target, err := url.Parse(link[1])
		switch {
		case err != nil:
			d.wrong(at, "%v", err)
			continue
		case target.IsAbs():
			continue // pages of others come and go
		}
		d.links++
		there := p
		if target.Path != "" {
			name := path.Join(folder, target.Path)
			if _, err := fs.Stat(d.files, name); err != nil {
				d.wrong(at, "%s does not exist", link[1])
				continue
			}
			there = d.pages[name]
		}
		if target.Fragment != "" && !there.headings[target.Fragment] {
			d.wrong(at, "%s is no heading", link[1])
		}
	}
}

// checkBlock checks that a block can be parsed.
func (d *docs) checkBlock(name string, b block) {
	at, text := fmt.Sprintf("%s:%d", name, b.line), strings.Join(b.lines, "\n")
	var err error
	switch b.language {
	case "json":
		err = json.Unmarshal([]byte(text), new(any))
	case "yaml":
		err = yaml.Unmarshal([]byte(text), new(any))
	case "go":
		var formatted []byte
		if formatted, err = format.Source([]byte(text)); err == nil && string(formatted) != text {
			err = errors.New("not as gofmt has it")
		}
	case "":
		err = errors.New("a block without a language; text is one")
	case "sh", "text":
		for i := 0; i < len(b.lines); i++ {
			first, line := i, b.lines[i]
			for ; strings.HasSuffix(line, `\`) && i+1 < len(b.lines); i++ {
				line = strings.TrimSuffix(line, `\`) + b.lines[i+1]
			}
			d.checkCommands(fmt.Sprintf("%s:%d", name, b.line+first+1), line, false)
		}
	}
	if err != nil {
		d.wrong(at, "%s: %v", b.language, err)
	}
	if b.open {
		d.wrong(at, "a block that does not end")
	}
}

// checkCommands checks that the program takes each of its command lines in a line
// of a shell: verb and flags exist, and have values that can be theirs. In a
// sentence a command may stand without its arguments.
func (d *docs) checkCommands(at, line string, sentence bool) {
	for _, call := range programCall.FindAllStringSubmatch(line, -1) {
		given := strings.TrimSpace(call[1])
		var args []string
		for _, word := range words.FindAllString(given, -1) {
			if word != "…" {
				args = append(args, strings.NewReplacer(`'`, "", `"`, "").Replace(word))
			}
		}
		if len(args) == 0 {
			continue
		}
		d.commands++
		if _, err := parse(args, io.Discard, io.Discard); err != nil && (!sentence || !lacksArguments.MatchString(err.Error())) {
			d.wrong(at, "timer-service %s: %v", given, err)
		}
	}
}

func (d *docs) wrong(at, format string, args ...any) {
	d.mistakes = append(d.mistakes, at+": "+fmt.Sprintf(format, args...))
}
