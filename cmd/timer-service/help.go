package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// A helpAll is the flag that shows the help with the settings.
type helpAll bool

// IgnoreDefault says that the flag has no default.
func (helpAll) IgnoreDefault() {}

// BeforeReset prints the help, even if arguments are missing.
func (helpAll) BeforeReset(ctx *kong.Context, p *parsed) error {
	p.all = true
	if err := ctx.PrintUsage(false); err != nil {
		return err
	}
	ctx.Kong.Exit(0)
	return nil
}

// printHelp prints the help of a verb and the settings that matter to it: one line about
// them, or all of them.
func (p *parsed) printHelp(opt kong.HelpOptions, ctx *kong.Context) error {
	verb := ""
	if node := ctx.Selected(); node != nil {
		verb = node.Path()
	}
	var matter []string
	for _, f := range ctx.Model.Flags {
		if f.Hidden = !matters(verb, f); !f.Hidden && isSetting(f) {
			matter = append(matter, "--"+f.Name)
			f.Hidden = !p.all
		}
	}
	if err := kong.DefaultHelpPrinter(opt, ctx); err != nil || p.all || len(matter) == 0 {
		return err
	}
	_, err := fmt.Fprintf(ctx.Stdout, "\n%s\n", about(matter, program+" "+verb))
	return err
}

// about says for people that a command has settings.
func about(flags []string, command string) string {
	const named = 2
	text := strings.Join(flags, " and ")
	if len(flags) > named {
		usual := slices.DeleteFunc([]string{"--db-path", "--broker-url"}, func(f string) bool { return !slices.Contains(flags, f) })
		text = fmt.Sprintf("%s, %d more", strings.Join(usual, ", "), len(flags)-len(usual))
	}
	return fmt.Sprintf("Settings (%s) with their variables: %s --help-all", text, command)
}
