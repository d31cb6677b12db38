package app_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"testing"

	"github.com/event-service-agent/timer-service/internal/longtest"
)

// TestNoCapabilityIsFoundByAssertion holds the rule that what a store or broker
// can do is part of its type: an optional interface that a decorated store lacks
// is a promise lost without a word. An error may be looked into.
func TestNoCapabilityIsFoundByAssertion(t *testing.T) {
	t.Parallel()
	longtest.NotShort(t)
	ports := make(map[string]bool) // by "package.Name"
	var files []*ast.File          // of the product
	set := token.NewFileSet()
	for _, s := range read(t) {
		file, err := parser.ParseFile(set, filepath.Join("..", s.name), nil, parser.SkipObjectResolution)
		must(t, err)
		for n := range ast.Preorder(file) {
			if spec, ok := n.(*ast.TypeSpec); ok {
				_, is := spec.Type.(*ast.InterfaceType)
				ports[file.Name.Name+"."+spec.Name.Name] = is || ports[file.Name.Name+"."+spec.Name.Name]
			}
		}
		if !s.test && !forTests.MatchString(s.pkg) {
			files = append(files, file)
		}
	}
	for _, file := range files {
		check := func(e ast.Expr) {
			is := false
			switch e := e.(type) {
			case *ast.InterfaceType:
				is = !ofErrors(e)
			case *ast.Ident:
				is = ports[file.Name.Name+"."+e.Name]
			case *ast.SelectorExpr:
				pkg, ok := e.X.(*ast.Ident)
				is = ok && ports[pkg.Name+"."+e.Sel.Name]
			}
			if is {
				t.Errorf("%s asserts an interface: make the ability part of the port", set.Position(e.Pos()))
			}
		}
		for n := range ast.Preorder(file) {
			switch n := n.(type) {
			case *ast.TypeAssertExpr:
				check(n.Type)
			case *ast.TypeSwitchStmt:
				for _, c := range n.Body.List {
					for _, e := range c.(*ast.CaseClause).List {
						check(e)
					}
				}
			}
		}
	}
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
