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

// maxFileBytes bounds the configuration file.
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
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("configuration file: %w", err)
	}
	if info.IsDir() || info.Size() > maxFileBytes {
		return nil, fmt.Errorf("configuration file %s: must be a file of at most %s", name, FormatSize(maxFileBytes))
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("configuration file: %w", err)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	// The parser lets through what YAML forbids, and it would end in a value.
	if !utf8.Valid(data) || bytes.ContainsFunc(data, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }) {
		return nil, fmt.Errorf("configuration file %s: must be UTF-8 text without control characters", name)
	}
	return parseYAML(name, data)
}

func parseYAML(name string, data []byte) ([]given, error) {
	const want = "must be lines of key: value"
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		if y, ok := errors.AsType[yaml.Error](err); ok && y.GetToken() != nil {
			return nil, fmt.Errorf("configuration file %s:%d: no valid YAML; it %s", name, y.GetToken().Position.Line, want)
		}
		return nil, fmt.Errorf("configuration file %s: no valid YAML; it %s", name, want)
	}
	var all []given
	seen := make(map[string]int)
	var errs []error
	for i, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.CommentType || doc.Body.Type() == ast.NullType {
			continue
		}
		mapping, ok := doc.Body.(*ast.MappingNode)
		if !ok || i > 0 {
			return nil, fmt.Errorf("configuration file %s:%d: %s, and one document", name, doc.Body.GetToken().Position.Line, want)
		}
		for _, entry := range mapping.Values {
			line := entry.Key.GetToken().Position.Line
			g := given{name: entry.Key.GetToken().Value, origin: origin{FromFile, fmt.Sprintf("%s:%d", name, line)}}
			if first, dup := seen[g.name]; dup {
				errs = append(errs, &Mistake{Key: g.name, From: g.place, Fix: fmt.Sprintf("is given in line %d already; remove one", first)})
				continue
			}
			seen[g.name] = line
			if g.value, ok = scalar(entry.Value); ok {
				g.key = g.name
			}
			all = append(all, g)
		}
	}
	return all, errors.Join(errs...)
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
