package symptom_test

import (
	"flag"
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
	"text/template"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/internal/symptom"
)

var update = flag.Bool("update", false, "write docs/troubleshooting.md")

// varies stands for a part of a message that differs each time.
const varies = "…"

var formatted = regexp.MustCompile(`%(\[\d+\])?[-+# 0]*[\d.]*[a-zA-Z]`)

// vary returns a format as a person sees it.
func vary(format string) string {
	text := strings.ReplaceAll(formatted.ReplaceAllString(format, varies), "%%", "%")
	return strings.ReplaceAll(text, varies+varies, varies)
}

// TestPage compares docs/troubleshooting.md with the page that the table makes.
func TestPage(t *testing.T) {
	t.Parallel()
	page, err := template.New("").Funcs(template.FuncMap{"vary": vary, "seen": func(s symptom.Symptom) string {
		text := "`" + vary(s.Text) + "`"
		if s.Cause != "" {
			text += ", " + s.Cause
		}
		return text
	}}).ParseFiles("testdata/troubleshooting.md.tmpl")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	if err := page.ExecuteTemplate(&want, "troubleshooting.md.tmpl", map[string][]symptom.Symptom{
		"Start": symptom.Start, "NotReady": symptom.NotReady, "Running": symptom.Running, "Messages": symptom.Messages,
		"Commands": symptom.Commands, "Checks": symptom.Checks, "Doctor": symptom.Doctor, "Alerts": symptom.Alerts,
	}); err != nil {
		t.Fatal(err)
	}
	const name = "../../docs/troubleshooting.md"
	if *update {
		if err := os.WriteFile(name, []byte(want.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.String(), string(got)); diff != "" {
		t.Errorf("%s is not what go generate makes (-want +got):\n%s", name, diff)
	}
}

// TestChecksAreComplete compares the lists with the package's variables: the page has all.
func TestChecksAreComplete(t *testing.T) {
	t.Parallel()
	for file, list := range map[string][]symptom.Symptom{"checks.go": symptom.Checks, "doctor.go": symptom.Doctor} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(source), "= Symptom{"); n != len(list) {
			t.Errorf("%s has %d symptoms, and its list %d", file, n, len(list))
		}
		for _, s := range list {
			if s.Text == "" || s.Do == "" {
				t.Errorf("%s: a symptom without its text or its advice: %+v", file, s)
			}
		}
	}
}

// TestMessagesAreInTheSource compares each message with the string literals of the source.
func TestMessagesAreInTheSource(t *testing.T) {
	t.Parallel()
	source := literals(t, "../..")
	for _, list := range [][]symptom.Symptom{symptom.Start, symptom.NotReady, symptom.Running, symptom.Messages, symptom.Commands} {
		for _, s := range list {
			for _, quoted := range regexp.MustCompile("`(.*?)`").FindAllStringSubmatch(s.Text, -1) {
				if !strings.Contains(source, quoted[1]) {
					t.Errorf("the program does not print %q", quoted[1])
				}
			}
		}
	}
}

// literals returns the strings of the product's source, one a line, with what is formatted
// into them replaced. Strings that are added up count as one.
func literals(t *testing.T, root string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "verify" || d.Name() == "tools" || d.Name() == "symptom" || d.Name() == "testdata" || d.Name() == ".git"):
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
