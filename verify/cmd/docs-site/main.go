// Docs-site writes the documentation as a folder of HTML that works without a network:
//
//	docs-site [-from FOLDER] [-to FOLDER]
//
// Each Markdown page of the repository becomes a page of HTML beside the files it
// links to, at the same paths.
package main

import (
	"bytes"
	_ "embed"
	"flag"
	"fmt"
	"html/template"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

const (
	start      = "docs/README.md"
	repository = "https://github.com/event-service-agent/timer-service/tree/main/"
)

//go:embed page.html
var layout string

var page = template.Must(template.New("page").Parse(layout))

func main() {
	from := flag.String("from", ".", "the repository")
	to := flag.String("to", "bin/site", "where the pages go")
	flag.Parse()
	if err := write(os.DirFS(*from), *to); err != nil {
		fmt.Fprintln(os.Stderr, "docs-site:", err)
		os.Exit(1)
	}
	fmt.Fprintln(os.Stdout, filepath.Join(*to, "index.html"))
}

// A site is being written.
type site struct {
	from  fs.FS
	to    string
	files map[string]bool // what pages link to, and is to be copied
}

// write writes the pages of a repository to a folder.
func write(from fs.FS, to string) error {
	s := &site{from: from, to: to, files: make(map[string]bool)}
	err := fs.WalkDir(from, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || name == ".git" || name == "bin"):
			return fs.SkipDir
		case path.Ext(name) != ".md":
			return nil
		}
		return s.page(name)
	})
	if err != nil {
		return err
	}
	for name := range s.files {
		data, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		if err := s.put(name, data); err != nil {
			return err
		}
	}
	return s.put("index.html", fmt.Appendf(nil, `<!DOCTYPE html><meta charset="utf-8"><title>timer-service</title><meta http-equiv="refresh" content="0; url=%[1]s"><a href="%[1]s">Documentation</a>`, html(start)))
}

// page writes one page.
func (s *site) page(name string) error {
	source, err := fs.ReadFile(s.from, name)
	if err != nil {
		return err
	}
	markdown := goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()))
	root := markdown.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(make(anchors)))))
	title := name
	err = ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		var err error
		switch n := n.(type) {
		case *ast.Heading:
			if n.Level == 1 {
				title = string(n.Lines().Value(source))
			}
		case *ast.Link:
			n.Destination, err = s.target(path.Dir(name), n.Destination)
		case *ast.Image:
			n.Destination, err = s.target(path.Dir(name), n.Destination)
		}
		return ast.WalkContinue, err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	var body, out bytes.Buffer
	if err := markdown.Renderer().Render(&body, source, root); err != nil {
		return err
	}
	err = page.Execute(&out, map[string]any{
		"Title": title,
		"Start": strings.Repeat("../", strings.Count(name, "/")) + html(start),
		"Body":  template.HTML(body.String()), //nolint:gosec // our own pages, and goldmark leaves out raw HTML
	})
	if err != nil {
		return err
	}
	return s.put(html(name), out.Bytes())
}

// target returns where a link of a page in a folder leads to in the site.
func (s *site) target(folder string, link []byte) ([]byte, error) {
	u, err := url.Parse(string(link))
	if err != nil || u.IsAbs() || u.Path == "" {
		return link, err
	}
	name := path.Join(folder, u.Path)
	info, err := fs.Stat(s.from, name)
	if err != nil {
		return nil, err
	}
	switch {
	case path.Ext(name) == ".md":
		u.Path = html(u.Path)
	case path.Ext(name) == ".go": // a copy in bin would be a package of this module
		return []byte(repository + name), nil
	case !info.IsDir():
		s.files[name] = true
	default: // a page about it, or its sources
		u.Path = path.Join(u.Path, "README.html")
		if _, err := fs.Stat(s.from, path.Join(name, "README.md")); err != nil {
			return []byte(repository + name), nil
		}
	}
	return []byte(u.String()), nil
}

func (s *site) put(name string, data []byte) error {
	file := filepath.Join(s.to, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o644)
}

// html returns the name of the page made from a Markdown file.
func html(name string) string { return strings.TrimSuffix(name, ".md") + ".html" }

// Anchors are those of headings, as GitHub makes them.
type anchors map[string]bool

// Generate returns the anchor of a heading.
func (a anchors) Generate(title []byte, _ ast.NodeKind) []byte {
	base := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(string(title)))
	anchor := base
	for n := 1; a[anchor]; n++ {
		anchor = fmt.Sprintf("%s-%d", base, n)
	}
	a[anchor] = true
	return []byte(anchor)
}

// Put notes an anchor that a page chose itself.
func (a anchors) Put(anchor []byte) { a[string(anchor)] = true }
