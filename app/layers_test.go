package app_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/internal/longtest"
)

const (
	module       = "github.com/event-service-agent/timer-service"
	maxFileLines = 500
)

// internalLayers are the layers of packages in internal that import packages of ours. The
// others there are in layer 0. All other packages are in the drawing of docs/architecture.md.
var internalLayers = map[string]int{"internal/migration": 1, "internal/fault": 4, "internal/proxy": 4, "internal/natsd": 5, "internal/apiclient": 7}

// drawnLayers returns the layer of each pattern of packages in docs/architecture.md. A package
// imports packages of lower layers only, never of its own.
func drawnLayers(t *testing.T) map[string]int {
	t.Helper()
	page, err := os.ReadFile("../docs/architecture.md")
	must(t, err)
	drawn := make(map[string]int)
	for _, line := range regexp.MustCompile(`(?m)^(\d) +([^─\n]+)`).FindAllStringSubmatch(string(page), -1) {
		layer, err := strconv.Atoi(line[1])
		must(t, err)
		for _, pattern := range strings.Fields(line[2]) {
			drawn[pattern] = layer
		}
	}
	return drawn
}

// layerOf returns the layer of a package, and the pattern in the drawing that matches it.
func layerOf(drawn map[string]int, pkg string) (layer int, pattern string, known bool) {
	if strings.HasPrefix(pkg, "internal/") {
		return internalLayers[pkg], "", true
	}
	for pattern, layer := range drawn {
		if ok, _ := path.Match(pattern, pkg); ok {
			return layer, pattern, true
		}
	}
	return 0, "", false
}

// stdlibOnly are the packages that import nothing but the standard library.
var stdlibOnly = []string{"timer"}

// driverLayer is the layer of the drivers: packages below store/ or broker/ that are no suites.
// Only packages that choose a driver may import them.
const driverLayer = 4

// isDriver reports whether a package of a layer is a driver.
func isDriver(pkg string, layer int) bool {
	return layer == driverLayer && !forTests.MatchString(pkg) && (strings.HasPrefix(pkg, "store/") || strings.HasPrefix(pkg, "broker/"))
}

// forTests are packages that only tests may import.
var forTests = regexp.MustCompile(`^internal/(fault|natsd|proxy)$|test$`)

// choosesDrivers are packages that may import drivers.
var choosesDrivers = regexp.MustCompile(`^service$|^timertest$|^cmd/|^examples/`)

// usesFx are packages that may import fx.
var usesFx = regexp.MustCompile(`^(app|service)$|^cmd/|^examples/`)

// A source has the properties of a file that the rules check.
type source struct {
	name    string   // path in the module
	pkg     string   // folder in the module
	imports []string // import paths
	lines   int
	test    bool // only compiled for tests
	outside bool // a test of another package than the one it tests
	sleeps  bool // calls time.Sleep
}

// TestLayersAreKept finds what breaks a rule of docs/architecture.md.
//
// Tests outside the package they test are exempt from layers: like any client
// they build whatever they need, and no import cycle can come of it. Tests
// inside keep to the layers, but may use packages for tests.
func TestLayersAreKept(t *testing.T) {
	t.Parallel()
	drawn := drawnLayers(t)
	missing := maps.Clone(drawn)
	for _, s := range read(t) {
		report := func(format string, args ...any) {
			t.Errorf("%s: %s", s.name, fmt.Sprintf(format, args...))
		}
		if s.lines > maxFileLines {
			report("has %d lines, more than %d: split it by idea", s.lines, maxFileLines)
		}
		if s.sleeps && s.test && !slices.Contains(s.imports, "testing/synctest") {
			report("sleeps for real: use testing/synctest, or wait for an event")
		}
		layer, pattern, known := layerOf(drawn, s.pkg)
		delete(missing, pattern)
		if !known {
			report("package %s is in no layer: add it to the drawing in docs/architecture.md", s.pkg)
		}
		if !known || s.outside {
			continue
		}
		for _, imported := range s.imports {
			pkg, ours := strings.CutPrefix(imported, module+"/")
			below, _, known := layerOf(drawn, pkg)
			switch {
			case !ours && !s.test && slices.Contains(stdlibOnly, s.pkg) && strings.Contains(imported, "."):
				report("imports %s, but %s imports the standard library only", imported, s.pkg)
			case !ours && strings.HasPrefix(imported, "go.uber.org/fx") && !usesFx.MatchString(s.pkg):
				report("imports fx, which stays in app and above")
			case !ours, !known: // reported for the file of that package
			case forTests.MatchString(pkg):
				if !s.test && !forTests.MatchString(s.pkg) {
					report("imports %s, which is for tests", pkg)
				}
			case below >= layer:
				report("in layer %d imports %s of layer %d: only lower ones may be imported", layer, pkg, below)
			case isDriver(pkg, below) && !choosesDrivers.MatchString(s.pkg):
				report("imports the driver %s, which service and hosts choose", pkg)
			}
		}
	}
	for pkg := range missing {
		t.Errorf("package %s has a layer but does not exist: remove it from docs/architecture.md", pkg)
	}
}

// read returns the sources of the module, without those of modules inside it. It reads
// through the file system, so that the test cache sees when one changes.
func read(t *testing.T) (sources []source) {
	t.Helper()
	fsys := os.DirFS("..")
	must(t, fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			_, statErr := fs.Stat(fsys, path.Join(name, "go.mod"))
			hidden := strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "node_modules"
			if name != "." && (hidden || statErr == nil) {
				return fs.SkipDir
			}
		case path.Ext(name) == ".go":
			s, err := parse(fsys, name)
			sources = append(sources, s)
			return err
		}
		return nil
	}))
	return sources
}

func parse(fsys fs.FS, name string) (source, error) {
	text, err := fs.ReadFile(fsys, name)
	if err != nil {
		return source{}, err
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ImportsOnly|parser.SkipObjectResolution)
	if err != nil {
		return source{}, err
	}
	s := source{
		name:  name,
		pkg:   path.Dir(name),
		lines: bytes.Count(text, []byte("\n")),
		test:  strings.HasSuffix(name, "_test.go"),
		// Not a call of this test, which would find itself.
		sleeps: bytes.Contains(text, []byte("time."+"Sleep(")),
	}
	s.outside = s.test && strings.HasSuffix(file.Name.Name, "_test")
	for _, spec := range file.Imports {
		s.imports = append(s.imports, strings.Trim(spec.Path.Value, `"`))
	}
	return s, nil
}

// TestTheWayOfATimerExists looks for the files that docs/architecture.md lists, each
// in the folder of the one before it unless it names its own.
func TestTheWayOfATimerExists(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/architecture.md")
	must(t, err)
	_, list, _ := strings.Cut(string(page), "File by file")
	list, _, _ = strings.Cut(list, "**One way in.**")
	files := regexp.MustCompile("`([a-z/]+\\.go)`").FindAllStringSubmatch(list, -1)
	if len(files) < 20 {
		t.Fatalf("the page lists %d files", len(files))
	}
	folder := ""
	for _, f := range files {
		if dir := path.Dir(f[1]); dir != "." {
			folder = dir
		}
		if _, err := os.Stat(filepath.Join("..", folder, path.Base(f[1]))); err != nil {
			t.Error(err)
		}
	}
}

// ofGlobalMux are packages that add handlers to http.DefaultServeMux when they are imported.
var ofGlobalMux = regexp.MustCompile(`^(net/http/pprof|expvar|golang\.org/x/net/trace)$`)

// addsHandlers are packages that import such a package: the program and its assembly, and those
// where the server of NATS or the exporters of OpenTelemetry do, as docs/embedding.md says.
var addsHandlers = regexp.MustCompile(`^(service|timertest|telemetry|broker/nats/embedded)$|^(cmd|examples)/`)

// TestImportsAddNoHandlers to http.DefaultServeMux, which a host may serve to everyone.
func TestImportsAddNoHandlers(t *testing.T) {
	t.Parallel()
	packages := make(map[string]bool)
	for _, s := range read(t) {
		packages["../"+s.pkg] = !s.test && !addsHandlers.MatchString(s.pkg) || packages["../"+s.pkg]
	}
	maps.DeleteFunc(packages, func(_ string, imported bool) bool { return !imported })
	args := append([]string{"list", "-deps"}, slices.Sorted(maps.Keys(packages))...)
	out, err := exec.CommandContext(t.Context(), "go", args...).Output()
	must(t, err)
	for _, name := range strings.Fields(string(out)) {
		if ofGlobalMux.MatchString(name) {
			t.Errorf("a package brings %s to the program that imports it", name)
		}
	}
}

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
