package main

import (
	"io/fs"
	"net/url"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

var (
	links   = regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	targets = regexp.MustCompile(` id="([^"]*)"`)
)

// TestSite writes the site of this repository: each link leads to a page, and to a
// heading of it, and nothing is loaded from elsewhere.
func TestSite(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if err := write(os.DirFS("../../.."), folder); err != nil {
		t.Fatal(err)
	}
	site := os.DirFS(folder)
	pages, checked := make(map[string]string), 0
	err := fs.WalkDir(site, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".html" {
			return err
		}
		body, err := fs.ReadFile(site, name)
		pages[name] = string(body)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, body := range pages {
		for _, link := range links.FindAllStringSubmatch(body, -1) {
			target, err := url.Parse(strings.ReplaceAll(link[1], "&amp;", "&"))
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if target.IsAbs() {
				if strings.HasPrefix(link[0], "src=") {
					t.Errorf("%s: %s is loaded from elsewhere", name, link[1])
				}
				continue
			}
			checked++
			there := name
			if target.Path != "" {
				there = path.Join(path.Dir(name), target.Path)
			}
			if info, err := fs.Stat(site, there); err != nil || info.IsDir() {
				t.Errorf("%s: %s is no file", name, link[1])
				continue
			}
			if target.Fragment != "" && !hasAnchor(pages[there], target.Fragment) {
				t.Errorf("%s: %s is no heading", name, link[1])
			}
		}
	}
	if len(pages) < 60 || checked < 400 {
		t.Errorf("found %d pages and %d links, fewer than there are", len(pages), checked)
	}
}

func hasAnchor(body, anchor string) bool {
	for _, id := range targets.FindAllStringSubmatch(body, -1) {
		if id[1] == anchor {
			return true
		}
	}
	return false
}
