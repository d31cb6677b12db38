package crash

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
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
	if err != nil {
		t.Fatal(err)
	}
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

// TestServiceSurvivesDeathAtEachStep kills it twice at each.
func TestServiceSurvivesDeathAtEachStep(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the service and kills it for up to a minute: not with -short")
	}
	t.Parallel()
	shipped, err := Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	bin, err := Build(t.Context(), t.TempDir(), stepTag)
	if err != nil {
		t.Fatal(err)
	}
	if has(t, shipped) || !has(t, bin) {
		t.Errorf("traces of failpoints in the service as it ships: %v, with the tag: %v", has(t, shipped), has(t, bin))
	}

	r, err := logRun(t, Options{Bin: bin, Mode: Step, Kills: 2, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	judge(t, r, 2*len(steps), 2*len(steps)+2) // one to make timers old, one in the end
	for _, s := range r.Steps {
		if s.Kills != 2 {
			t.Errorf("%s: %d kills, want 2", s.Step, s.Kills)
		}
	}
	if len(r.Steps) != len(steps) {
		t.Errorf("a report of %d steps, want %d", len(r.Steps), len(steps))
	}
}

// TestServiceSurvivesDeathAtEachStepOnPostgres kills it once at each.
func TestServiceSurvivesDeathAtEachStepOnPostgres(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the service and kills it for up to a minute: not with -short")
	}
	t.Parallel()
	opt := ofPostgres(t, Options{Mode: Step, Kills: 1, Seed: 1})
	var err error
	if opt.Bin, err = Build(t.Context(), t.TempDir(), stepTag); err != nil {
		t.Fatal(err)
	}
	r, err := logRun(t, opt)
	if err != nil {
		t.Fatal(err)
	}
	judge(t, r, len(steps), len(steps)+2) // one to make timers old, one in the end
}

// has reports whether a binary has a trace of a failpoint: the name of the
// package stands in its tables of functions and files, if anything of it is
// left.
func has(t *testing.T, bin string) bool {
	t.Helper()
	text, err := os.ReadFile(bin)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Contains(text, []byte("internal/failpoint"))
}

// A service that does not die at its step proves nothing.
func TestReportsAStepThatIsNotReached(t *testing.T) {
	if testing.Short() {
		t.Skip("kills processes for some seconds: not with -short")
	}
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := script(t, "export "+forgetfulEnv+"=yes; exec "+strconv.Quote(self)+` "$@"`)
	r, err := logRun(t, Options{
		Bin: bin, Mode: Step, Steps: []string{"acked", "draining"}, Kills: 3, Seed: 1,
		Settle: time.Second, stepTimeout: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.Count(history.Unreached) != 1 || r.Kills != 0 || len(r.Steps) != 2 {
		t.Errorf("%d of 1 steps not reached, %d kills, report of %d steps, want 2", r.Count(history.Unreached), r.Kills, len(r.Steps))
	}
	// It dies of SIGTERM, which is no death at a step either.
	if r.Count(history.Died) != 1 {
		t.Errorf("%d deaths by themselves, want 1", r.Count(history.Died))
	}
}
