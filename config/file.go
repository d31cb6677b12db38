package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// maxFileBytes bounds files. The parser takes 5 s for 20,000 keys (goccy/go-yaml
// 1.19, measured 2026-11), about as many as fit.
const maxFileBytes = 1 << 20

// A given is one setting as it was given, not looked at yet.
type given struct {
	name  string // as it was given
	key   string // as in the file; empty if the value is no single one
	value string
	origin
}

// readFile reads a YAML file of keys and values. Its errors never hold text of
// the file, which may be secret.
func readFile(name string) ([]given, error) {
	f := yamlFile{"configuration file", name}
	body, err := f.read()
	if err != nil {
		return nil, err
	}
	entries, errs := f.entries(body, "")
	all := make([]given, len(entries))
	for i, entry := range entries {
		g := given{name: entry.name, origin: origin{FromFile, entry.place}}
		var plain bool
		if g.value, plain = scalar(entry.value); plain {
			g.key = g.name
		}
		all[i] = g
	}
	return all, errors.Join(errs...)
}

// A yamlFile is one that is read. Its errors never hold text of it.
type yamlFile struct {
	what string // for people
	name string
}

// read returns what the file holds, nil if that is nothing.
func (f yamlFile) read() (*ast.MappingNode, error) {
	info, err := os.Stat(f.name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.what, err)
	}
	if info.IsDir() || info.Size() > maxFileBytes {
		return nil, fmt.Errorf("%s %s: must be a file of at most %s", f.what, f.name, FormatSize(maxFileBytes))
	}
	data, err := os.ReadFile(f.name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.what, err)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	// The parser lets through what YAML forbids, and it would end in a value.
	if !utf8.Valid(data) || bytes.ContainsFunc(data, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }) {
		return nil, fmt.Errorf("%s %s: must be UTF-8 text without control characters", f.what, f.name)
	}
	return f.parse(data)
}

func (f yamlFile) parse(data []byte) (*ast.MappingNode, error) {
	const want = "must be lines of key: value"
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		if y, ok := errors.AsType[yaml.Error](err); ok && y.GetToken() != nil {
			return nil, fmt.Errorf("%s %s:%d: no valid YAML; it %s", f.what, f.name, y.GetToken().Position.Line, want)
		}
		return nil, fmt.Errorf("%s %s: no valid YAML; it %s", f.what, f.name, want)
	}
	var body *ast.MappingNode
	for i, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.CommentType || doc.Body.Type() == ast.NullType {
			continue
		}
		mapping, ok := doc.Body.(*ast.MappingNode)
		if !ok || i > 0 {
			return nil, fmt.Errorf("%s %s:%d: %s, and one document", f.what, f.name, doc.Body.GetToken().Position.Line, want)
		}
		body = mapping
	}
	return body, nil
}

// An entry is a key and its value.
type entry struct {
	name  string
	place string // for mistakes
	value ast.Node
}

// entries returns those of a mapping, without repetitions, and those as mistakes.
// Inside is what stands before the keys in a mistake.
func (f yamlFile) entries(mapping *ast.MappingNode, inside string) (all []entry, errs []error) {
	if mapping == nil {
		return nil, nil
	}
	seen := make(map[string]int)
	for _, v := range mapping.Values {
		line := v.Key.GetToken().Position.Line
		e := entry{v.Key.GetToken().Value, fmt.Sprintf("%s:%d", f.name, line), v.Value}
		if first, dup := seen[e.name]; dup {
			errs = append(errs, &Mistake{Key: inside + clip(e.name), From: e.place, Fix: fmt.Sprintf("is given in line %d already; remove one", first)})
			continue
		}
		seen[e.name] = line
		all = append(all, e)
	}
	return all, errs
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
