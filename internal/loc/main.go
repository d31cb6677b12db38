// Command loc counts the lines of Go, SQL and templates in each room, without
// blank lines and comments, as docs/architecture.md shows them.
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	rooms, err := count(".")
	if err != nil {
		fmt.Fprintln(os.Stderr, "loc:", err)
		os.Exit(1)
	}
	names := make([]string, 0, len(rooms))
	var code, tests int
	for name, n := range rooms {
		names = append(names, name)
		code, tests = code+n.code, tests+n.tests
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Printf("| %s | %d | %d |\n", name, rooms[name].code, rooms[name].tests)
	}
	fmt.Printf("| all | %d | %d |\n", code, tests)
}

type lines struct{ code, tests int }

// count returns the lines of every folder below root that holds code.
func count(root string) (map[string]lines, error) {
	rooms := make(map[string]lines)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != root || d.Name() == "testdata" || d.Name() == "node_modules" || d.Name() == "tools"):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go" && filepath.Ext(path) != ".sql":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		room := filepath.ToSlash(filepath.Dir(path))
		room = strings.TrimSuffix(strings.TrimSuffix(room, "/query"), "/migrations")
		n := rooms[room]
		if strings.HasSuffix(path, "_test.go") || strings.HasSuffix(room, "test") {
			n.tests += countLines(text)
		} else {
			n.code += countLines(text)
		}
		rooms[room] = n
		return nil
	})
	return rooms, err
}

// countLines counts the lines of text that are neither blank nor a comment.
func countLines(text []byte) (n int) {
	s := bufio.NewScanner(bytes.NewReader(text))
	for s.Scan() {
		line := strings.TrimSpace(s.Text())
		if line != "" && !strings.HasPrefix(line, "//") && !strings.HasPrefix(line, "--") {
			n++
		}
	}
	return n
}
