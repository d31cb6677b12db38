package config

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// hostile are files that took gigabytes, or minutes, or ended the process.
func hostile() map[string]string {
	const most = maxFileBytes - 100
	fill := func(s string) string { return strings.Repeat(s, most/len(s)) }
	return map[string]string{
		"brackets":             fill("["),
		"braces with keys":     fill("{a: "),
		"closed by the others": fill("[}"),
		"items":                fill("- "),
		"items on lines":       fill("-\n"),
		"keys on lines":        fill("a:\n"),
		"tags":                 "default: " + fill("!!str "),
		"aliases":              "default: " + fill("*a "),
		"commas":               "default: [" + fill(",") + "]",
		"documents":            fill("---\n"),
		"colons":               fill("a: "),
		"different keys": func() string {
			var b strings.Builder
			for i := range maxKeys - 1 {
				fmt.Fprintf(&b, "key%d:\n", i)
			}
			return b.String()
		}(),
		"different keys in braces": func() string {
			var b strings.Builder
			b.WriteString("tenants: {")
			for i := range 29_000 {
				fmt.Fprintf(&b, "t%d: a,", i)
			}
			return b.String() + "}"
		}(),
		"deeper and deeper": func() string {
			var b strings.Builder
			for i := 0; b.Len() < most; i++ {
				b.WriteString(strings.Repeat(" ", i) + "a:\n")
			}
			return b.String()
		}(),
	}
}

// TestHostileFilesAreRefused reads a MiB of each, and as much as the limits allow.
// It is not parallel, so that it can measure what that allocates.
func TestHostileFilesAreRefused(t *testing.T) {
	allocated := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.TotalAlloc
	}
	for name, whole := range hostile() {
		texts := []string{whole}
		if n := signs(whole); n > 2*maxTokens {
			texts = append(texts, whole[:len(whole)/(n/maxTokens)]) // at most twice as many as tokens are allowed
		}
		for _, text := range texts {
			file := filepath.Join(t.TempDir(), "timer.yaml")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			before := allocated()
			if _, err := LoadQuotas(file); err == nil || !strings.Contains(err.Error(), file) {
				t.Errorf("%s, %d bytes, as quotas: %v", name, len(text), err)
			}
			if all := (allocated() - before) >> 20; all > 256 { // 201 was seen
				t.Errorf("%s: %d bytes allocate %d MiB", name, len(text), all)
			}
			if len(text) < len(whole) {
				continue
			}
			if _, err := Load(nil, nil, file); err != nil && !strings.Contains(err.Error(), file) {
				t.Errorf("%s as settings: %v", name, err)
			}
		}
	}
}

func TestFilesWithinTheLimitsAreRead(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth)
	for _, text := range []string{
		deep, "a: {b: {c: [1, 2]}}\n", "default:\n  horizon: 1d\ntenants:\n  acme:\n      horizon: 2d\n  beta: {horizon: 3d}\n",
		strings.Repeat("a: {b: [c, d]}\n", 5000), "a: 'it''s [ [ ['\nb: \"{\" # {{{\n",
	} {
		if _, err := tokenize(text); err != nil {
			t.Errorf("%.40q: %v", text, err)
		}
	}
	if _, err := tokenize("[" + deep + "]"); err == nil {
		t.Error("deeper than the limit is taken")
	}
}

// A depthOf finds how deep a tree is, and how many nodes it has.
type depthOf struct {
	level        int
	deepest, all *int
}

// Visit looks at a node.
func (d depthOf) Visit(ast.Node) ast.Visitor {
	*d.all++
	*d.deepest = max(*d.deepest, d.level)
	d.level++
	return d
}

// Whatever a file holds, it is refused before it is parsed, or what is parsed is
// no deeper and has no more nodes than the limits allow, on which memory and time
// depend.
func FuzzLimits(f *testing.F) {
	for _, text := range hostile() {
		f.Add(text[:min(len(text), 4000)])
	}
	f.Add("a: [b, {c: d}]\ne:\n- f\n- ? g\n  : h\n")
	f.Fuzz(func(t *testing.T, text string) {
		tokens, err := tokenize(text)
		if err != nil {
			return
		}
		if len(tokens) > maxTokens {
			t.Fatalf("%d tokens", len(tokens))
		}
		file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
		if err != nil {
			return
		}
		deepest, all := 0, 0
		for _, doc := range file.Docs {
			if doc.Body != nil {
				ast.Walk(depthOf{1, &deepest, &all}, doc.Body)
			}
		}
		// A key, its pair, its value, a tag and an anchor are nodes within each other.
		if deepest > 6*(maxDepth+1) || all > 4*maxTokens {
			t.Errorf("%d levels, %d nodes", deepest, all)
		}
	})
}
