package config

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/goccy/go-yaml/scanner"
	"github.com/goccy/go-yaml/token"
)

// Limits of a file, with which no file allocates 200 MB. The parser calls itself
// for each level, with more memory for each than for the last: 100 KiB of brackets
// ended the process. It allocates half a KiB a token, and for the keys of a block
// as much as their number squared: 150 MB for 6,000 (goccy/go-yaml 1.19.2, measured
// 2026-11).
const (
	maxTokens = 120_000
	maxKeys   = 6_000 // of one block; those within braces do not count
	maxDepth  = 16
)

// tokenize splits YAML into tokens, within the limits.
func tokenize(text string) (tokens token.Tokens, err error) {
	if signs(text) > 2*maxTokens { // the scanner reads all of it at once
		return nil, errTooMany
	}
	var (
		s scanner.Scanner
		n nesting
	)
	s.Init(text)
	for {
		found, end := s.Scan()
		if errors.Is(end, io.EOF) { // any other error is in a token
			return tokens, nil
		}
		for _, t := range found {
			tokens.Add(t)
			if err := n.add(t); err != nil {
				return nil, err
			}
			if len(tokens) > maxTokens {
				return nil, errTooMany
			}
		}
	}
}

var errTooMany = fmt.Errorf("must have at most %d words and signs", maxTokens)

// signs returns how many tokens a text has at most, without reading it as YAML.
func signs(text string) (n int) {
	last := '\n'
	for _, c := range text {
		starts := c != ' ' && (last == ' ' || last == '\n')
		if starts || strings.ContainsRune("[]{},:?|>&*!%#'\"\n", c) {
			n++
		}
		last = c
	}
	return n
}

// A nesting is what is open at a token.
type nesting struct {
	blocks   []block      // within each other
	brackets []token.Type // those that close what is open
	tags     int          // in a row, and anchors
	work     int          // of the parser: of each key, as much as those before it in its block
}

// A block is keys or items below each other.
type block struct{ column, keys int }

// add adds a token, and returns an error if it is beyond a limit.
func (n *nesting) add(t *token.Token) error {
	switch t.Type {
	case token.TagType, token.AnchorType:
		n.tags++
	default:
		n.tags = 0
	}
	switch t.Type {
	case token.SequenceStartType:
		n.brackets = append(n.brackets, token.SequenceEndType)
	case token.MappingStartType:
		n.brackets = append(n.brackets, token.MappingEndType)
	case token.SequenceEndType, token.MappingEndType:
		if last := len(n.brackets) - 1; last >= 0 && n.brackets[last] == t.Type {
			n.brackets = n.brackets[:last]
		}
	case token.SequenceEntryType, token.MappingKeyType:
		n.line(t.Position.Column)
	case token.MappingValueType:
		if t.Prev != nil {
			n.line(t.Prev.Position.Column)
		}
	}
	if n.work > maxKeys*maxKeys/2 {
		return fmt.Errorf("must have at most %d keys below each other; write more within braces", maxKeys)
	}
	if len(n.blocks)+len(n.brackets)+n.tags > maxDepth {
		return fmt.Errorf("must not be nested deeper than %d", maxDepth)
	}
	return nil
}

// line adds a key or an item: within those that begin further to the left.
func (n *nesting) line(column int) {
	if len(n.brackets) > 0 {
		return
	}
	for len(n.blocks) > 0 && n.blocks[len(n.blocks)-1].column > column {
		n.blocks = n.blocks[:len(n.blocks)-1]
	}
	last := len(n.blocks) - 1
	if last < 0 || n.blocks[last].column < column {
		n.blocks = append(n.blocks, block{column: column})
		last++
	}
	n.blocks[last].keys++
	n.work += n.blocks[last].keys
}
