package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// varies stands for a part of a message that differs each time.
const varies = "…"

var formatted = regexp.MustCompile(`%(\[\d+\])?[-+# 0]*[\d.]*[a-zA-Z]`)

// TestTroubleshootingQuotesTheSource compares each symptom of docs/troubleshooting.md
// with the string literals of the source.
func TestTroubleshootingQuotesTheSource(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	symptoms := regexp.MustCompile("(?m)^\\| (`.*?) \\|").FindAllStringSubmatch(string(page), -1)
	if len(symptoms) < 25 {
		t.Errorf("%d symptoms, want 25 at least", len(symptoms))
	}
	source := literals(t, "../..")
	for _, cell := range symptoms {
		for _, quoted := range regexp.MustCompile("`(.*?)`").FindAllStringSubmatch(cell[1], -1) {
			if !strings.Contains(source, quoted[1]) {
				t.Errorf("the program does not print %q", quoted[1])
			}
		}
	}
}

// literals returns the strings of the product's source, one a line, those that are
// added up as one, with what is formatted into them replaced.
func literals(t *testing.T, root string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "verify" || d.Name() == "tools" || d.Name() == "testdata" || d.Name() == ".git"):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			e, is := n.(ast.Expr)
			if !is {
				return true
			}
			text, found := literal(e)
			if found {
				all.WriteString(formatted.ReplaceAllString(text, varies) + "\n")
			}
			return !found
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// literal returns the text of a string literal, or of a sum of them and other
// things, which vary.
func literal(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false
		}
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		left, isLeft := literal(e.X)
		right, isRight := literal(e.Y)
		if !isLeft {
			left = varies
		}
		if !isRight {
			right = varies
		}
		return left + right, e.Op == token.ADD && (isLeft || isRight)
	}
	return "", false
}
