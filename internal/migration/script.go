package migration

import (
	"fmt"
	"io/fs"
	"strings"
)

// Script returns the steps that a database of a version lacks, for people who apply them
// by hand: one transaction each, which notes the version. Versions is the statement that
// makes the table of versions.
func Script(steps fs.FS, versions string, from int64) (string, error) {
	files, err := fs.Glob(steps, "*.sql") // sorted
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for i, file := range files {
		version := int64(i + 1)
		if version <= from {
			continue
		}
		text, err := fs.ReadFile(steps, file)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "-- Schema %d.\nBEGIN;\n", version)
		if version == 1 {
			fmt.Fprintf(&b, "%s;\nINSERT INTO %s (version_id, is_applied) VALUES (0, true);\n", versions, Table)
		}
		for line := range strings.Lines(string(text)) {
			if !strings.HasPrefix(line, "-- +goose") {
				b.WriteString(line)
			}
		}
		fmt.Fprintf(&b, "INSERT INTO %s (version_id, is_applied) VALUES (%d, true);\nCOMMIT;\n\n", Table, version)
	}
	return b.String(), nil
}
