package main

import (
	"io/fs"
	"net/url"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

// TestSite makes the site of this repository, and follows each of its links.
func TestSite(t *testing.T) {
	folder := t.TempDir()
	if err := build(os.DirFS("../../.."), folder, "https://docs.example/", "https://code.example/timers", "v1"); err != nil {
		t.Fatal(err)
	}
	made := os.DirFS(folder)
	pages, links := 0, 0
	if err := fs.WalkDir(made, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".html" {
			return err
		}
		text, err := fs.ReadFile(made, name)
		pages++
		for _, to := range targets.FindAllStringSubmatch(string(text), -1) {
			u, err := url.Parse(to[1])
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if u.IsAbs() {
				continue
			}
			links++
			target := name
			if u.Path != "" {
				target = path.Join(path.Dir(name), u.Path)
			}
			other, err := fs.ReadFile(made, target)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if u.Fragment != "" && !strings.Contains(string(other), `id="`+u.Fragment+`"`) {
				t.Errorf("%s: %s has no %q", name, target, u.Fragment)
			}
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if pages < 60 || links < 1000 {
		t.Errorf("%d pages with %d links", pages, links)
	}
	index, err := fs.ReadFile(made, "llms.txt")
	if err != nil {
		t.Fatal(err)
	}
	listed := strings.Count(string(index), "\n- [")
	for _, to := range regexp.MustCompile(`\(https://docs\.example/([^)]+)\)`).FindAllStringSubmatch(string(index), -1) {
		if _, err := fs.Stat(made, to[1]); err != nil {
			t.Error(err)
		}
		listed--
	}
	if listed != 0 || !strings.Contains(string(index), "docs/quotas.md") {
		t.Errorf("%d pages have no link in\n%s", listed, index)
	}
}

var targets = regexp.MustCompile(`(?:href|src)="([^"]+)"`)

func TestLinksThatLeadNowhereAreRefused(t *testing.T) {
	for link, want := range map[string]string{
		"[a](missing.md)":         "leads nowhere",
		"[a](other.md#missing)":   "no such heading",
		"[a](#missing)":           "no such heading",
		"![a](missing.png)":       "is missing",
		"[a](other.md#a_b-c-1)":   "",
		"[a](../code/main.go)":    "",
		"[a](https://go.dev/#x)":  "",
		"[a](mailto:a@b.example)": "",
	} {
		err := build(fstest.MapFS{
			"README.md":      {Data: []byte("# Home\n\nIt is here.\n")},
			"docs/README.md": {Data: []byte("# Contents\n\n[other](other.md) " + link + "\n")},
			"docs/other.md":  {Data: []byte("# Other\n\n## `a_b` c!\n\n## a_b C\n")},
			"code/main.go":   {Data: []byte("package main\n")},
		}, t.TempDir(), "https://docs.example", "https://code.example/timers", "v1")
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", link, err, want)
		}
	}
}
