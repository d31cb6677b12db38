package main

import (
	"cmp"
	"embed"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

//go:embed completion/*
var completions embed.FS

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish,powershell" help:"bash, zsh, fish or powershell."`
}

// Help is printed below the summary.
func (completionCmd) Help() string {
	return `Prints a script that completes verbs, flags and their values: what these are it asks
this program, so the script stays right after an upgrade.

Examples:

    timer-service completion bash > /etc/bash_completion.d/timer-service
    timer-service completion zsh > "${fpath[1]}/_timer-service"
    timer-service completion fish > ~/.config/fish/completions/timer-service.fish
    timer-service completion powershell >> $PROFILE`
}

// Run prints the script.
func (c *completionCmd) Run(e *env) error {
	script, err := completions.ReadFile("completion/" + c.Shell)
	if err != nil {
		panic(err) // the file is embedded
	}
	if e.out.json {
		e.out.line(map[string]string{"shell": c.Shell, "script": string(script)})
		return nil
	}
	_, _ = e.out.w.Write(script) // the writer keeps the error
	return nil
}

// completeVerb is the verb that the scripts call. The words before the cursor follow it. It
// completes the last word, which may be empty.
const completeVerb = "__complete"

// complete prints the words that fit, one on each line, each with a tab and its meaning. If
// it prints none, the word is a file, or something that only the user knows.
func complete(w io.Writer, words []string) {
	if len(words) == 0 {
		return
	}
	p := &commandLine{cli: new(cli), flags: newSettingFlags()}
	k := grammar(p, io.Discard, io.Discard, func(int) {})
	before, word := words[:len(words)-1], words[len(words)-1]
	read, err := kong.Trace(k, before) // reports wrong or missing words with an error of its own
	if err != nil {
		return
	}
	node, arg := k.Model.Node, 0
	for _, at := range read.Path {
		switch {
		case at.Command != nil:
			node, arg = at.Command, 0
		case at.Positional != nil:
			arg = at.Positional.Position + 1
		}
	}
	suggest := func(name, help string) {
		if strings.HasPrefix(name, word) {
			help, _, _ = strings.Cut(help, "\n")
			fmt.Fprintf(w, "%s\t%s\n", name, help)
		}
	}
	suggestValues := func(before string, v *kong.Value) {
		for name := range strings.SplitSeq(cmp.Or(v.Enum, v.Tag.Get(valuesTag)), ",") {
			if name != "" {
				suggest(before+name, "")
			}
		}
	}
	last := strings.Join(words[max(0, len(words)-2):len(words)-1], "") // may be a flag whose value is completed
	flags := !slices.Contains(before, "--") && strings.HasPrefix(word, "-")
	for at := node; at != nil; at = at.Parent { // the flags of the verb come first
		for _, f := range at.Flags {
			switch name := "--" + f.Name; {
			case !f.IsBool() && (last == name || f.Short != 0 && last == "-"+string(f.Short)):
				suggestValues("", f.Value)
				return
			case flags && strings.HasPrefix(word, name+"="):
				suggestValues(name+"=", f.Value)
			case flags && matters(node.Path(), f):
				suggest(name, f.Help)
			}
		}
	}
	switch {
	case flags:
	case len(node.Children) > 0:
		for _, c := range node.Children {
			suggest(c.Name, c.Help)
		}
	case arg < len(node.Positional):
		suggestValues("", node.Positional[arg])
	}
}
