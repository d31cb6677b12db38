package main

import (
	"embed"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/event-service-agent/timer-service/config"
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

// completeVerb is what the scripts call: the words before the cursor follow, the last
// one, which may be empty, is completed.
const completeVerb = "__complete"

// complete prints the words that fit, one a line, with a tab and what it means. None
// means a file, or something that only the user knows.
func complete(w io.Writer, words []string) {
	if len(words) == 0 {
		return
	}
	p := &parsed{cli: new(cli), flags: newSettingFlags()}
	k := grammar(p, io.Discard, io.Discard, func(int) {})
	before, word := words[:len(words)-1], words[len(words)-1]
	read, err := kong.Trace(k, before) // it has an error of its own for words that are wrong, or not all there
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
	var value *kong.Flag // of which the word is the value
	if len(before) > 0 {
		value = flagOf(node, before[len(before)-1])
	}
	dashes := slices.Contains(before, "--")
	name, part, assigned := strings.Cut(word, "=")
	switch {
	case value != nil && !value.IsBool():
		suggest(w, "", word, values(value.Value, value.Name))
	case !dashes && strings.HasPrefix(word, "--") && assigned:
		if f := flagOf(node, name); f != nil {
			suggest(w, name+"=", part, values(f.Value, f.Name))
		}
	case !dashes && strings.HasPrefix(word, "-"):
		suggest(w, "", word, flagsOf(node))
	case len(node.Children) > 0:
		suggest(w, "", word, verbsOf(node))
	case arg < len(node.Positional):
		suggest(w, "", word, values(node.Positional[arg], ""))
	}
}

// A suggestion is a word that may be meant.
type suggestion struct{ word, help string }

// suggest prints those that begin with a part, with what stands before it.
func suggest(w io.Writer, before, part string, all []suggestion) {
	for _, s := range all {
		if strings.HasPrefix(s.word, part) {
			help, _, _ := strings.Cut(s.help, "\n")
			fmt.Fprintf(w, "%s%s\t%s\n", before, s.word, help)
		}
	}
}

func verbsOf(node *kong.Node) (all []suggestion) {
	for _, c := range node.Children {
		all = append(all, suggestion{c.Name, c.Help})
	}
	return all
}

// flagOf returns the flag that a word is, if it has no value in it.
func flagOf(node *kong.Node, word string) *kong.Flag {
	for n := node; n != nil; n = n.Parent {
		for _, f := range n.Flags {
			if word == "--"+f.Name || f.Short != 0 && word == "-"+string(f.Short) {
				return f
			}
		}
	}
	return nil
}

// flagsOf returns the flags of a verb, its own first, and of the settings those that
// matter to it.
func flagsOf(node *kong.Node) (all []suggestion) {
	shown, some := shownSettings[node.Path()]
	for n := node; n != nil; n = n.Parent {
		for _, f := range n.Flags {
			setting := f.Group != nil && f.Group.Key == groupSettings
			if setting && some && !slices.Contains(shown, strings.ReplaceAll(f.Name, "-", "_")) {
				continue
			}
			all = append(all, suggestion{"--" + f.Name, f.Help})
		}
	}
	return all
}

// values returns the values that an argument, or a flag of that name, takes, if these are
// few.
func values(v *kong.Value, flag string) (all []suggestion) {
	var names []string
	if v.Enum != "" {
		names = strings.Split(v.Enum, ",")
	}
	for _, s := range config.Settings() {
		if s.Flag == flag {
			names = s.Values
		}
	}
	for _, name := range names {
		all = append(all, suggestion{word: name})
	}
	return all
}
