package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// These are the limits of a file.
const (
	maxFileBytes = 1 << 20
	maxMistakes  = 1000 // the most that are reported
)

// A givenSetting is one setting as it was given, before it is checked.
type givenSetting struct {
	name  string // as the user wrote it
	key   string // as in the file; empty if the value is not a single one
	value string
	origin
}

// settings returns the settings of a configuration file. Their mistakes never contain text of the
// file, which may be secret.
func (f *yamlFile) settings(entries []entry) (all []givenSetting) {
	for _, e := range entries {
		g := givenSetting{name: e.name, origin: origin{FromFile, e.location}}
		var plain bool
		if g.value, plain = scalar(e.value); plain {
			g.key = g.name
		}
		all = append(all, g)
	}
	return all
}

// A yamlFile is a file to read. Errors about it never contain text of it.
type yamlFile struct {
	what string // kind of the file, for errors
	name string
	errs []error // mistakes found so far
}

// loadYAML returns the result of calling of with the keys of a file. A file without keys is
// an error that says what it must hold, unless it may be empty. The error joins all mistakes in
// the file; then the result has the rest.
func loadYAML[T any](f yamlFile, holds string, of func(*yamlFile, []entry) T) (v T, err error) {
	root, err := f.read()
	if err != nil {
		return v, err
	}
	entries := f.entries(root)
	if holds != "" && len(entries) == 0 && len(f.errs) == 0 { // a file that is being written may be empty
		return v, fmt.Errorf("%s %s: is empty; it must have %s", f.what, f.name, holds)
	}
	v = of(&f, entries)
	return v, errors.Join(f.errs...)
}

// read returns the file as an entry without a name, and without a value if the file
// is empty.
func (f *yamlFile) read() (entry, error) {
	file, err := os.Open(f.name)
	if err != nil {
		return entry{}, fmt.Errorf("%s: %w", f.what, err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1)) // the size of a pipe is unknown
	switch {
	case err != nil:
		return entry{}, fmt.Errorf("%s: %w", f.what, err)
	case len(data) > maxFileBytes:
		return entry{}, fmt.Errorf("%s %s: must be a file of at most %s", f.what, f.name, FormatSize(maxFileBytes))
	}
	return f.parse(data)
}

func (f *yamlFile) parse(data []byte) (entry, error) {
	const want = "must be lines of key: value"
	var doc, more yaml.Node
	documents := yaml.NewDecoder(bytes.NewReader(data))
	if err := documents.Decode(&doc); errors.Is(err, io.EOF) {
		return entry{}, nil
	} else if err != nil {
		line := 1
		_, _ = fmt.Sscanf(err.Error(), "yaml: line %d", &line) // an error in the first line has no number
		return entry{}, fmt.Errorf("%s %s:%d: not valid YAML in this line or the next; it %s", f.what, f.name, line, want)
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode && root.Tag != null || !errors.Is(documents.Decode(&more), io.EOF) {
		return entry{}, fmt.Errorf("%s %s: %s, and one document", f.what, f.name, want)
	}
	return entry{value: root}, nil
}

// null is the tag of an absent value.
const null = "!!null"

// An entry is a key and its value.
type entry struct {
	name     string
	path     string // the name, after the names of the mappings around it, with dots
	location string // for mistakes
	value    *yaml.Node
}

// entries returns the keys of the mapping in e. Repeated keys, and any value that is not a
// mapping, are mistakes.
func (f *yamlFile) entries(e entry) (all []entry) {
	if e.value == nil || e.value.Tag == null {
		return nil
	}
	if e.value.Kind != yaml.MappingNode {
		f.refuse(e, "", "must be keys and values")
		return nil
	}
	lines := make(map[string]int)
	for pair := range slices.Chunk(e.value.Content, 2) {
		name, line := pair[0].Value, pair[0].Line
		key := entry{name, strings.TrimPrefix(e.path+"."+clip(name), "."), fmt.Sprintf("%s:%d", f.name, line), pair[1]}
		if first, repeated := lines[name]; repeated {
			f.refuse(key, "", fmt.Sprintf("is given in line %d already; remove one", first))
			continue
		}
		lines[name] = line
		all = append(all, key)
	}
	return all
}

// refuse records a mistake, unless there are maxMistakes already.
func (f *yamlFile) refuse(e entry, value, fix string) {
	if len(f.errs) == maxMistakes {
		return
	}
	f.errs = append(f.errs, &Mistake{Key: e.path, Value: value, From: e.location, Fix: fix})
}

// scalar returns the text of a plain value, without a tag or an anchor. An absent value is
// empty, and so is any other one: the text of an alias is its name.
func scalar(n *yaml.Node) (text string, plain bool) {
	if n.Tag == null {
		return "", true
	}
	if n.Kind != yaml.ScalarNode || n.Style&yaml.TaggedStyle != 0 || n.Anchor != "" {
		return "", false
	}
	return n.Value, true
}
