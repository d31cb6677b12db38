// Command site makes a static site of the Markdown of this repository, in a folder: site FOLDER URL
// REPOSITORY COMMIT. URL is where the site will be. Links to files that are no pages lead to the
// REPOSITORY at the COMMIT. Each page is there as it was written, too, and llms.txt lists
// them. It fails at a link or an anchor that leads nowhere.
package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
)

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: site FOLDER URL REPOSITORY COMMIT")
		os.Exit(1)
	}
	if err := build(os.DirFS("."), os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// contents is the page whose links say which pages the navigation has, and in which order.
const contents = "docs/README.md"

// A page is a Markdown file.
type page struct {
	Name     string // of the file
	Title    string
	First    string // first paragraph
	Sections []section
	source   []byte
	doc      ast.Node
	anchors  map[string]bool
}

// A section is a heading of the second level.
type section struct{ Title, Anchor string }

// out names the file of a page.
func out(name string) string {
	if path.Base(name) == "README.md" {
		return path.Join(path.Dir(name), "index.html")
	}
	return strings.TrimSuffix(name, ".md") + ".html"
}

// A site is all pages, and the files that they show.
type site struct {
	files           fs.FS
	url, repository string
	commit          string
	pages           map[string]*page
	assets          map[string]bool
	navigation      []*page
}

func build(files fs.FS, folder, url, repository, commit string) error {
	s := site{files: files, url: strings.TrimSuffix(url, "/"), repository: strings.TrimSuffix(repository, "/"), commit: commit, pages: make(map[string]*page), assets: make(map[string]bool)}
	if err := fs.WalkDir(files, ".", s.read); err != nil {
		return err
	}
	index, ok := s.pages[contents]
	if !ok {
		return errors.New(contents + " is missing")
	}
	var wrong []error
	for _, link := range links(index.doc) {
		if p := s.pages[path.Join(path.Dir(contents), pathOf(string(link.Destination)))]; p != nil && !slices.Contains(s.navigation, p) {
			s.navigation = append(s.navigation, p)
		}
	}
	for _, p := range s.pages {
		for _, link := range links(p.doc) {
			to, err := s.link(p, string(link.Destination))
			if err != nil {
				wrong = append(wrong, fmt.Errorf("%s: %w", p.Name, err))
			}
			link.Destination = []byte(to)
		}
		for _, image := range images(p.doc) {
			to, err := s.image(p, string(image.Destination))
			if err != nil {
				wrong = append(wrong, fmt.Errorf("%s: %w", p.Name, err))
			}
			image.Destination = []byte(to)
		}
	}
	if err := errors.Join(wrong...); err != nil {
		return err
	}
	return s.write(folder)
}

// read reads a file if it is a page.
func (s *site) read(name string, entry fs.DirEntry, err error) error {
	switch {
	case err != nil:
		return err
	case entry.IsDir() && name != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "node_modules"):
		return fs.SkipDir
	case entry.IsDir() || path.Ext(name) != ".md":
		return nil
	}
	source, err := fs.ReadFile(s.files, name)
	if err != nil {
		return err
	}
	s.pages[name] = parse(name, source)
	return nil
}

var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()), goldmark.WithRendererOptions(html.WithUnsafe()))

func parse(name string, source []byte) *page {
	names := &anchors{of: make(map[string]bool)}
	p := &page{Name: name, Title: name, source: source, anchors: names.of}
	p.doc = markdown.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(names))))
	for n := p.doc.FirstChild(); n != nil; n = n.NextSibling() {
		switch n := n.(type) {
		case *ast.Heading:
			anchor, _ := n.AttributeString("id")
			switch n.Level {
			case 1:
				p.Title = plain(n, source)
			case 2:
				p.Sections = append(p.Sections, section{plain(n, source), string(anchor.([]byte))})
			}
		case *ast.Paragraph:
			if p.First == "" {
				p.First = strings.Join(strings.Fields(plain(n, source)), " ")
			}
		}
	}
	return p
}

// plain returns the text of a node.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if t, ok := n.(*ast.Text); ok && entering {
			b.Write(t.Segment.Value(source))
			if t.SoftLineBreak() {
				b.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// anchors names headings as GitHub does, which the pages are written for.
type anchors struct{ of map[string]bool }

// Generate returns the anchor of a heading.
func (a *anchors) Generate(value []byte, _ ast.NodeKind) []byte {
	name := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, markup.ReplaceAllString(string(value), "$1"))
	unique := name
	for i := 1; a.of[unique]; i++ {
		unique = fmt.Sprint(name, "-", i)
	}
	a.of[unique] = true
	return []byte(unique)
}

// markup is a link in a heading: only its text counts.
var markup = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)

// Put notes an anchor.
func (a *anchors) Put(value []byte) { a.of[string(value)] = true }

func links(doc ast.Node) []*ast.Link   { return nodes[*ast.Link](doc) }
func images(doc ast.Node) []*ast.Image { return nodes[*ast.Image](doc) }

func nodes[N ast.Node](doc ast.Node) (found []N) {
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if n, ok := n.(N); ok && entering {
			found = append(found, n)
		}
		return ast.WalkContinue, nil
	})
	return found
}

func pathOf(link string) string {
	name, _, _ := strings.Cut(link, "#")
	return name
}

// link returns where a link of a page leads on the site.
func (s *site) link(from *page, link string) (string, error) {
	if u, err := url.Parse(link); err != nil || u.Scheme != "" {
		return link, err
	}
	name, anchor, _ := strings.Cut(link, "#")
	target := from.Name
	if name != "" {
		target = path.Join(path.Dir(from.Name), name)
	}
	info, err := fs.Stat(s.files, target)
	if err != nil {
		return link, fmt.Errorf("%q leads nowhere", link)
	}
	p := s.pages[target]
	switch {
	case p == nil && info.IsDir():
		return s.repository + "/tree/" + s.commit + "/" + target, nil
	case p == nil:
		return s.repository + "/blob/" + s.commit + "/" + target, nil
	case anchor != "" && !p.anchors[anchor]:
		return link, fmt.Errorf("%q: the page has no such heading", link)
	case anchor != "":
		anchor = "#" + anchor
	}
	return relative(from.Name, out(target)) + anchor, nil
}

// image returns where an image is on the site, which then has it.
func (s *site) image(from *page, link string) (string, error) {
	if u, err := url.Parse(link); err != nil || u.Scheme != "" {
		return link, err
	}
	target := path.Join(path.Dir(from.Name), link)
	if _, err := fs.Stat(s.files, target); err != nil {
		return link, fmt.Errorf("the image %q is missing", link)
	}
	s.assets[target] = true
	return relative(from.Name, target), nil
}

// relative returns the way from one file to another.
func relative(from, to string) string {
	way, err := filepath.Rel(filepath.FromSlash(path.Dir(from)), filepath.FromSlash(to))
	if err != nil {
		panic(err) // both are relative to one folder
	}
	return filepath.ToSlash(way)
}

//go:embed page.html
var layout string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{"base": path.Base}).Parse(layout))

// write writes the site into a folder.
func (s *site) write(folder string) error {
	for _, p := range s.pages {
		var body, whole bytes.Buffer
		if err := markdown.Renderer().Render(&body, p.source, p.doc); err != nil {
			return err
		}
		if err := pageTemplate.Execute(&whole, map[string]any{
			"Page": p, "Body": template.HTML(body.String()), "Navigation": s.navigation, "Repository": s.repository, //nolint:gosec // our own Markdown
			"To": func(to *page) string { return relative(p.Name, out(to.Name)) }, "Home": s.pages["README.md"], "Contents": s.pages[contents],
		}); err != nil {
			return err
		}
		if err := errors.Join(save(folder, out(p.Name), whole.Bytes()), save(folder, p.Name, p.source)); err != nil {
			return err
		}
	}
	for asset := range s.assets {
		content, err := fs.ReadFile(s.files, asset)
		if err = errors.Join(err, save(folder, asset, content)); err != nil {
			return err
		}
	}
	return save(folder, "llms.txt", s.index())
}

// index lists the pages for programs that read them, as llmstxt.org says.
func (s *site) index() []byte {
	var b bytes.Buffer
	if home := s.pages["README.md"]; home != nil {
		fmt.Fprintf(&b, "# %s\n\n> %s\n\n## Documentation\n\n", home.Title, home.First)
	}
	for _, p := range s.navigation {
		fmt.Fprintf(&b, "- [%s](%s/%s): %s\n", p.Title, s.url, p.Name, p.First)
	}
	return b.Bytes()
}

func save(folder, name string, content []byte) error {
	file := filepath.Join(folder, filepath.FromSlash(name))
	return errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, content, 0o644))
}
