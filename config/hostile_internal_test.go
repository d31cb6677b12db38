package config

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
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
			for i := range 30_000 {
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

// TestHostileFilesAreRefused reads a MiB of each. It is not parallel, so that it can
// measure what that allocates.
func TestHostileFilesAreRefused(t *testing.T) {
	allocated := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.TotalAlloc
	}
	for name, text := range hostile() {
		file := filepath.Join(t.TempDir(), "timer.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		before := allocated()
		if _, err := LoadQuotas(file); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s, as quotas: %.200v", name, err)
		}
		if all := (allocated() - before) >> 20; all > 256 {
			t.Errorf("%s: allocates %d MiB", name, all)
		}
		if _, err := Load(nil, nil, file); err != nil && !strings.Contains(err.Error(), file) {
			t.Errorf("%s as settings: %.200v", name, err)
		}
	}
}
