package crash

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/verify/crash/history"
)

// module is where the module of the service is, seen from here.
const module = "../.."

// TestStepsAreThoseOfTheService holds the table against the code.
func TestStepsAreThoseOfTheService(t *testing.T) {
	t.Parallel()
	var inCode []string
	err := filepath.WalkDir(module, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && len(d.Name()) > 2 && (d.Name()[0] == '.' || d.Name() == "node_modules"):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if name, ok := failpoint(n); ok {
				inCode = append(inCode, name)
			}
			return true
		})
		return nil
	})
	must(t, err)
	slices.Sort(inCode)
	inCode = slices.Compact(inCode) // one step may be passed on several ways
	inTable := slices.Sorted(slices.Values(Steps()))
	if diff := cmp.Diff(inCode, inTable); diff != "" {
		t.Errorf("other steps than those of the code (-code +table):\n%s", diff)
	}
}

// failpoint returns the step that a call names, if it is one of failpoint.Here.
func failpoint(n ast.Node) (step string, ok bool) {
	call, ok := n.(*ast.CallExpr)
	if !ok || len(call.Args) != 1 {
		return "", false
	}
	fun, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || fun.Sel.Name != "Here" {
		return "", false
	}
	if pkg, ok := fun.X.(*ast.Ident); !ok || pkg.Name != "failpoint" {
		return "", false
	}
	literal, ok := call.Args[0].(*ast.BasicLit)
	if !ok {
		return "not a literal", true
	}
	step, err := strconv.Unquote(literal.Value)
	return step, err == nil
}

// A service that does not die at its step proves nothing.
func TestReportsAStepThatIsNotReached(t *testing.T) {
	if testing.Short() {
		t.Skip("kills processes for some seconds: not with -short")
	}
	t.Parallel()
	bin := careless(t, "yes")
	r, err := logRun(t, Options{
		Bin: bin, Mode: Step, Steps: []string{"acked", "draining"}, Kills: 3, Seed: 1,
		Settle: time.Second, stepTimeout: time.Second,
	})
	must(t, err)
	if r.Count(history.Unreached) != 1 || r.Kills != 0 || len(r.Steps) != 2 {
		t.Errorf("%d of 1 steps not reached, %d kills, report of %d steps, want 2", r.Count(history.Unreached), r.Kills, len(r.Steps))
	}
	// It dies of SIGTERM, which is no death at a step either.
	if r.Count(history.Died) != 1 {
		t.Errorf("%d deaths by themselves, want 1", r.Count(history.Died))
	}
}
