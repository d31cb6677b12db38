package main

import (
	"encoding/json"
	"fmt"
	"go/format"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// A page is a Markdown file.
type page struct {
	text     []string // its lines; those of blocks are empty
	blocks   []block
	headings map[string]bool // as anchors
}

// A block is what stands between two fences.
type block struct {
	line     int // of the first fence
	language string
	text     string
}

// TestDocs checks each page: its links, its commands of this program, and that its JSON, YAML
// and Go can be parsed.
func TestDocs(t *testing.T) {
	t.Parallel()
	files := os.DirFS("../..")
	pages := make(map[string]page)
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
		pages[name] = readPage(string(text))
		return err
	})
	must(t, err)
	commands := 0
	for name, p := range pages {
		for i, line := range p.text {
			at := fmt.Sprintf("%s:%d", name, i+1)
			for _, span := range spans.FindAllString(line, -1) {
				commands += checkCommands(t, at, strings.Trim(span, "`"), true)
			}
			for _, link := range linkTargets.FindAllStringSubmatch(spans.ReplaceAllString(line, ""), -1) {
				if err := checkLink(files, pages, name, link[1]); err != nil {
					t.Errorf("%s: %v", at, err)
				}
			}
		}
		for _, b := range p.blocks {
			at := fmt.Sprintf("%s:%d", name, b.line)
			var err error
			switch b.language {
			case "json":
				err = json.Unmarshal([]byte(b.text), new(any))
			case "yaml":
				err = yaml.Unmarshal([]byte(b.text), new(any))
			case "go":
				_, err = format.Source([]byte(b.text))
			case "sh", "text":
				for line := range strings.Lines(strings.ReplaceAll(b.text, "\\\n", "")) {
					commands += checkCommands(t, at, line, false)
				}
			}
			if err != nil {
				t.Errorf("%s: %s: %v", at, b.language, err)
			}
		}
	}
	if commands == 0 {
		t.Error("no page has a command")
	}
}

func readPage(text string) page {
	p := page{text: strings.Split(text, "\n"), headings: make(map[string]bool)}
	var open *block // nil outside of blocks
	for i, line := range p.text {
		language, fenced := strings.CutPrefix(line, "```")
		title, isTitle := strings.CutPrefix(strings.TrimLeft(line, "#"), " ")
		switch {
		case fenced && open == nil:
			open = &block{line: i + 1, language: language}
		case fenced:
			p.blocks = append(p.blocks, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		case isTitle && strings.HasPrefix(line, "#"):
			anchor := anchorOf(title)
			for n := 1; p.headings[anchor]; n++ {
				anchor = fmt.Sprintf("%s-%d", anchorOf(title), n)
			}
			p.headings[anchor] = true
		}
		if fenced || open != nil {
			p.text[i] = ""
		}
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

// checkLink returns an error if a link of a page leads to no file or heading of ours. Pages of
// others come and go.
func checkLink(files fs.FS, pages map[string]page, from, link string) error {
	target, err := url.Parse(link)
	if err != nil || target.IsAbs() {
		return err
	}
	if target.Path != "" {
		from = path.Join(path.Dir(from), target.Path)
	}
	if _, err := fs.Stat(files, from); err != nil {
		return err
	}
	if target.Fragment != "" && !pages[from].headings[target.Fragment] {
		return fmt.Errorf("%s is no heading", link)
	}
	return nil
}

// checkCommands checks that the program takes each of its command lines in a line of a shell:
// verb and flags exist, and have values that can be theirs. In a sentence a command may stand
// without its arguments. It returns how many there are.
func checkCommands(t *testing.T, at, line string, sentence bool) (n int) {
	t.Helper()
	for _, call := range programCall.FindAllStringSubmatch(line, -1) {
		var args []string
		for _, word := range words.FindAllString(call[1], -1) {
			if word != "…" {
				args = append(args, strings.NewReplacer(`'`, "", `"`, "").Replace(word))
			}
		}
		if len(args) == 0 {
			continue
		}
		n++
		if _, err := parse(args, io.Discard, io.Discard); err != nil && (!sentence || !lacksArguments.MatchString(err.Error())) {
			t.Errorf("%s: timer-service %s: %v", at, call[1], err)
		}
	}
	return n
}
