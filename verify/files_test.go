package verify

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestFiles holds this module to two rules that the layers test has for the
// product: files stay readable, and tests do not sleep for real.
func TestFiles(t *testing.T) {
	t.Parallel()
	const maxLines = 500
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "node_modules":
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".go":
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if n := bytes.Count(text, []byte("\n")); n > maxLines {
			t.Errorf("%s has %d lines, more than %d", name, n, maxLines)
		}
		if bytes.Contains(text, []byte("time."+"Sleep(")) && !bytes.Contains(text, []byte(`"testing/synctest"`)) {
			t.Errorf("%s sleeps for real: use testing/synctest, or wait for an event", name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
