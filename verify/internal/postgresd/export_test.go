package postgresd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// In returns the command lines of processes that work in the directory of a
// server.
func In(t *testing.T, s *Server) (some []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	for _, cwd := range all {
		if dir, err := os.Readlink(cwd); err == nil && (dir == s.dir || dir == s.data()) {
			text, _ := os.ReadFile(filepath.Join(filepath.Dir(cwd), "cmdline"))
			some = append(some, strings.ReplaceAll(string(text), "\x00", " "))
		}
	}
	return some
}
