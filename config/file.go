package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// maxFileBytes bounds files.
const maxFileBytes = 1 << 20

// A given is one setting as it was given, not looked at yet.
type given struct {
	name  string // as it was given
	key   string // as in the file; empty if the value is no single one
	value string
	origin
}

// readFile reads a YAML file of keys and values. Its errors never contain
// text of the file, which may be secret.
func readFile(name string) ([]given, error) {
	f := yamlFile{what: "configuration file", name: name}
	body, err := f.read()
	if err != nil {
		return nil, err
	}
	entries := f.entries(body)
	all := make([]given, len(entries))
	for i, entry := range entries {
		g := given{name: entry.name, origin: origin{FromFile, entry.location}}
		var plain bool
		if g.value, plain = scalar(entry.value); plain {
			g.key = g.name
		}
		all[i] = g
	}
	return all, errors.Join(f.errs...)
}

// A yamlFile is a file to read. Errors about it never contain text of it.
type yamlFile struct {
	what string // what it is, for errors
	name string
	errs []error // mistakes found so far
}

// read returns the file as an entry without a name, and without a value if the file
// is empty.
func (f *yamlFile) read() (entry, error) {
	info, err := os.Stat(f.name)
	if err != nil {
		return entry{}, fmt.Errorf("%s: %w", f.what, err)
	}
	if info.IsDir() || info.Size() > maxFileBytes {
		return entry{}, fmt.Errorf("%s %s: must be a file of at most %s", f.what, f.name, FormatSize(maxFileBytes))
	}
	data, err := readAtMost(f.name, maxFileBytes)
	if err != nil {
		return entry{}, fmt.Errorf("%s: %w", f.what, err)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	// The parser accepts characters that YAML forbids, and they would get into a value.
	if !utf8.Valid(data) || bytes.ContainsFunc(data, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }) {
		return entry{}, fmt.Errorf("%s %s: must be UTF-8 text without control characters", f.what, f.name)
	}
	return f.parse(data)
}

// readAtMost reads a file of which the size may not be known, such as a pipe.
func readAtMost(name string, limit int64) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s: must have at most %s", name, FormatSize(limit))
	}
	return data, err
}

func (f *yamlFile) parse(data []byte) (root entry, err error) {
	const want = "must be lines of key: value"
	tokens, err := tokenize(string(data))
	if err != nil {
		return entry{}, fmt.Errorf("%s %s: %w", f.what, f.name, err)
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		if y, ok := errors.AsType[yaml.Error](err); ok && y.GetToken() != nil {
			return entry{}, fmt.Errorf("%s %s:%d: not valid YAML; it %s", f.what, f.name, y.GetToken().Position.Line, want)
		}
		return entry{}, fmt.Errorf("%s %s: not valid YAML; it %s", f.what, f.name, want)
	}
	for i, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.CommentType || doc.Body.Type() == ast.NullType {
			continue
		}
		if _, ok := doc.Body.(*ast.MappingNode); !ok || i > 0 {
			return entry{}, fmt.Errorf("%s %s:%d: %s, and one document", f.what, f.name, doc.Body.GetToken().Position.Line, want)
		}
		root.value = doc.Body
	}
	return root, nil
}

// An entry is a key and its value.
type entry struct {
	name     string
	path     string // the name after those of the mappings around it, with dots
	location string // for mistakes
	value    ast.Node
}

// entries returns the keys of the mapping that e is, without repetitions. These and
// another value than a mapping are mistakes.
func (f *yamlFile) entries(e entry) (all []entry) {
	var values []*ast.MappingValueNode
	switch node := e.value.(type) {
	case nil, *ast.NullNode:
	case *ast.MappingNode:
		values = node.Values
	default:
		f.refuse(e, "", "must be keys and values")
	}
	lines := make(map[string]int)
	for _, v := range values {
		name, line := v.Key.GetToken().Value, v.Key.GetToken().Position.Line
		key := entry{name, strings.TrimPrefix(e.path+"."+clip(name), "."), fmt.Sprintf("%s:%d", f.name, line), v.Value}
		if first, repeated := lines[name]; repeated {
			f.refuse(key, "", fmt.Sprintf("is given in line %d already; remove one", first))
			continue
		}
		lines[name] = line
		all = append(all, key)
	}
	return all
}

// refuse notes a mistake.
func (f *yamlFile) refuse(e entry, value, fix string) {
	f.errs = append(f.errs, &Mistake{Key: e.path, Value: value, From: e.location, Fix: fix})
}

// scalar returns the text of a plain value. An absent one is empty.
func scalar(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case nil, *ast.NullNode:
		return "", true
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, true
	}
	return "", false
}
