package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A change breaks code on purpose. It names a package, a function and what the
// code does there, not its text or its file: code that is moved, formatted or
// written in other words around the spot is still broken in the same way.
type change struct {
	dir  string // of the package, in the repository
	fn   string // such as New, or Poller.poll for a method, Poller.* for all of a type; empty means all
	what string // for errors
	find func(s *source, scope ast.Node) []splice
	sql  func(text string) string // for .sql files: dir is the file
}

// A splice replaces a part of a file.
type splice struct {
	from, to token.Pos
	text     string
}

// A source is a parsed file.
type source struct {
	text []byte
	base token.Pos
}

func (s *source) of(n ast.Node) string { return string(s.text[n.Pos()-s.base : n.End()-s.base]) }

// in returns a change of a function.
func in(dir, fn string, op operator) change {
	return change{dir: dir, fn: fn, what: op.what, find: op.find}
}

// An operator is a kind of change.
type operator struct {
	what string
	find func(s *source, scope ast.Node) []splice
}

// skip leaves out the statements that call a function, such as Nack or
// msg.Nack. Names in them count as used.
func skip(call string) operator {
	return operator{"skip " + call, func(s *source, scope ast.Node) (found []splice) {
		ast.Inspect(scope, func(n ast.Node) bool {
			var c *ast.CallExpr
			switch n := n.(type) {
			case *ast.ExprStmt:
				c, _ = n.X.(*ast.CallExpr)
			case *ast.DeferStmt:
				c = n.Call
			}
			if c != nil && calls(c, call) {
				found = append(found, splice{n.Pos(), n.End(), "_ = func() { " + s.of(c) + " }"})
			}
			return true
		})
		return found
	}}
}

// instead uses an expression instead of the result of a call. A $ in it is the
// call.
func instead(call, expr string) operator {
	return operator{call + " is " + expr, func(s *source, scope ast.Node) (found []splice) {
		ast.Inspect(scope, func(n ast.Node) bool {
			c, ok := n.(*ast.CallExpr)
			if !ok || !calls(c, call) {
				return true
			}
			found = append(found, splice{c.Pos(), c.End(), strings.ReplaceAll(expr, "$", s.of(c))})
			return false
		})
		return found
	}}
}

// pretend does not call a function, and goes on as if it had returned no error.
func pretend(call string) operator { return instead(call, "func() error { return nil; return $ }()") }

// swap uses one expression instead of another, wherever that stands. Spaces do
// not matter.
func swap(from, to string) operator {
	e, err := parser.ParseExpr(from)
	if err != nil {
		panic(fmt.Sprintf("swap %q: %v", from, err)) // the list of mutants is wrong
	}
	want := types.ExprString(e)
	return operator{to + " instead of " + from, func(_ *source, scope ast.Node) (found []splice) {
		ast.Inspect(scope, func(n ast.Node) bool {
			if e, ok := n.(ast.Expr); ok && types.ExprString(e) == want {
				found = append(found, splice{e.Pos(), e.End(), to})
				return false
			}
			return true
		})
		return found
	}}
}

// never makes the conditions false that mention a name, such as jumped.
func never(name string) operator {
	word := regexp.MustCompile(`(^|\W)` + regexp.QuoteMeta(name) + `($|\W)`)
	return operator{"never " + name, func(s *source, scope ast.Node) (found []splice) {
		add := func(e ast.Expr) {
			if text := s.of(e); word.MatchString(text) {
				found = append(found, splice{e.Pos(), e.End(), "false && (" + text + ")"})
			}
		}
		ast.Inspect(scope, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.IfStmt:
				add(n.Cond)
			case *ast.ForStmt:
				if n.Cond != nil {
					add(n.Cond)
				}
			case *ast.SwitchStmt:
				for _, c := range n.Body.List {
					for _, e := range c.(*ast.CaseClause).List {
						if n.Tag == nil {
							add(e)
						}
					}
				}
			}
			return true
		})
		return found
	}}
}

// first does something at the beginning of the function.
func first(statement string) operator {
	return operator{"first " + statement, func(_ *source, scope ast.Node) []splice {
		if f, ok := scope.(*ast.FuncDecl); ok && f.Body != nil {
			return []splice{{f.Body.Lbrace + 1, f.Body.Lbrace + 1, " " + statement + ";"}}
		}
		return nil
	}}
}

// query changes an SQL statement. Spaces and line ends do not matter.
func query(file, from, to string) change {
	words := strings.Fields(from)
	for i, w := range words {
		words[i] = regexp.QuoteMeta(w)
	}
	pattern := regexp.MustCompile(strings.Join(words, `\s+`))
	return change{dir: file, what: fmt.Sprintf("%q instead of %q", to, from), sql: func(text string) string {
		return pattern.ReplaceAllLiteralString(text, to)
	}}
}

// calls reports whether a call is one of a function: all of its name, or the
// end of it after a dot.
func calls(c *ast.CallExpr, name string) bool {
	fun := types.ExprString(c.Fun)
	return fun == name || strings.HasSuffix(fun, "."+name)
}

// rewrite returns the files below root that the change makes different, as
// they are with it. An error says that it applies nowhere.
func (c change) rewrite(root string) (map[string][]byte, error) {
	if c.sql != nil {
		name := filepath.Join(root, filepath.FromSlash(c.dir))
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if changed := c.sql(string(text)); changed != string(text) {
			return map[string][]byte{name: []byte(changed)}, nil
		}
		return nil, fmt.Errorf("%s: %s: applies nowhere", c.dir, c.what)
	}
	names, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(c.dir), "*.go"))
	if err != nil {
		return nil, err
	}
	files := make(map[string][]byte)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		before, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		after, err := c.in(before)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if string(after) != string(before) {
			files[name] = after
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s %s: %s: applies nowhere", c.dir, c.fn, c.what)
	}
	return files, nil
}

// in returns the text of a file with the change.
func (c change) in(text []byte) ([]byte, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	s := &source{text, token.Pos(set.File(file.Pos()).Base())}
	var splices []splice
	if c.fn == "" {
		splices = c.find(s, file)
	}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && c.fn != "" && c.matches(f) {
			splices = append(splices, c.find(s, f)...)
		}
	}
	slices.SortFunc(splices, func(a, b splice) int { return int(b.from - a.from) })
	out := string(text)
	for i, p := range splices {
		if i > 0 && p.to > splices[i-1].from {
			return nil, errors.New("changes overlap: " + c.what)
		}
		out = out[:p.from-s.base] + p.text + out[p.to-s.base:]
	}
	return []byte(out), nil
}

func (c change) matches(f *ast.FuncDecl) bool {
	ok, err := path.Match(c.fn, nameOf(f))
	return ok && err == nil
}

// nameOf returns the name of a function, with that of its receiver's type.
func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil || len(f.Recv.List) != 1 {
		return f.Name.Name
	}
	t := f.Recv.List[0].Type
	if p, ok := t.(*ast.StarExpr); ok {
		t = p.X
	}
	if g, ok := t.(*ast.IndexExpr); ok {
		t = g.X
	}
	return types.ExprString(t) + "." + f.Name.Name
}
