package app_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/internal/longtest"
)

// TestNoCapabilityIsFoundByAssertion holds the rule that what a store or broker
// can do is part of its type: an optional interface that a decorated store lacks
// is a promise lost without a word. An error may be looked into.
func TestNoCapabilityIsFoundByAssertion(t *testing.T) {
	t.Parallel()
	longtest.NotShort(t)
	found, err := assertions(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range found {
		t.Errorf("%s asserts an interface: make what is asked for part of the port", at)
	}
}

// assertions returns where the product asserts that a value has an interface of
// ours, or one that is written in place.
func assertions(fsys fs.FS) (found []string, err error) {
	ports := make(map[string]bool) // by "package.Name"
	files := make(map[string]*ast.File)
	set := token.NewFileSet()
	sources, err := read(fsys)
	if err != nil {
		return nil, err
	}
	for _, s := range sources {
		text, err := fs.ReadFile(fsys, s.name)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(set, s.name, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if _, ok := spec.Type.(*ast.InterfaceType); ok {
					ports[file.Name.Name+"."+spec.Name.Name] = true
				}
			}
			return true
		})
		if !s.test && !forTests.MatchString(s.pkg) {
			files[s.name] = file
		}
	}
	for _, s := range sources {
		file, ok := files[s.name]
		if !ok {
			continue
		}
		isPort := func(e ast.Expr) bool {
			switch e := e.(type) {
			case *ast.InterfaceType:
				return !ofErrors(e)
			case *ast.Ident:
				return ports[file.Name.Name+"."+e.Name]
			case *ast.SelectorExpr:
				pkg, ok := e.X.(*ast.Ident)
				return ok && ports[pkg.Name+"."+e.Sel.Name]
			}
			return false
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeAssertExpr:
				if n.Type != nil && isPort(n.Type) {
					found = append(found, set.Position(n.Pos()).String())
				}
			case *ast.TypeSwitchStmt:
				for _, c := range n.Body.List {
					for _, e := range c.(*ast.CaseClause).List {
						if isPort(e) {
							found = append(found, set.Position(e.Pos()).String())
						}
					}
				}
			}
			return true
		})
	}
	return found, nil
}

// ofErrors reports whether an interface has the methods by which the standard
// library looks into errors, and no others.
func ofErrors(i *ast.InterfaceType) bool {
	for _, m := range i.Methods.List {
		if len(m.Names) != 1 || m.Names[0].Name != "Unwrap" && m.Names[0].Name != "Is" {
			return false
		}
	}
	return len(i.Methods.List) > 0
}

// TestAssertionsAreFound feeds the rule a module with each kind.
func TestAssertionsAreFound(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{
		"timer/ports.go": {Data: []byte("package timer\ntype Reader interface{ Get() }\n")},
		"app/app.go": {Data: []byte(strings.Join([]string{
			"package app", "type local interface{ Do() }", "func f(v any, err error) {",
			"_, _ = v.(timer.Reader)", "_, _ = v.(interface{ Prepare() })", "_, _ = v.(local)",
			"switch v.(type) { case timer.Reader: }",
			"_, _ = v.(string)", "_, _ = err.(interface{ Unwrap() []error })", "}",
		}, "\n"))},
		"app/app_test.go":      {Data: []byte("package app\nfunc g(v any) { _, _ = v.(timer.Reader) }\n")},
		"store/storetest/s.go": {Data: []byte("package storetest\nfunc g(v any) { _, _ = v.(timer.Reader) }\n")},
	}
	found, err := assertions(files)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"app/app.go:4:8", "app/app.go:5:8", "app/app.go:6:8", "app/app.go:7:24"}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
}
