package main

import (
	"fmt"
	"slices"

	"github.com/alecthomas/kong"
)

// helpAllFlag is the flag that shows the help with the settings.
type helpAllFlag bool

// IgnoreDefault says that the flag has no default.
func (helpAllFlag) IgnoreDefault() {}

// BeforeReset prints the help, even if arguments are missing.
func (helpAllFlag) BeforeReset(ctx *kong.Context, p *commandLine) error {
	p.all = true
	if err := ctx.PrintUsage(false); err != nil {
		return err
	}
	ctx.Kong.Exit(0)
	return nil
}

// printHelp prints the help of a verb and the settings that matter to it: one line about
// them, or all of them.
func (p *commandLine) printHelp(opt kong.HelpOptions, ctx *kong.Context) error {
	verb := ""
	if node := ctx.Selected(); node != nil {
		verb = node.Path()
	} else {
		ctx.Model.HelpFlag.Help += " Exit codes: 0 success, 1 failure, 2 wrong usage, 3 not found."
	}
	for _, f := range ctx.Model.Flags {
		f.Hidden = !matters(verb, f) || isSetting(f) && !p.all
	}
	if err := kong.DefaultHelpPrinter(opt, ctx); err != nil || p.all || slices.Contains(bareVerbs, verb) {
		return err
	}
	if asksService(verb) {
		fmt.Fprint(ctx.Stdout, "\n--server URL names a service elsewhere.") // the writer keeps the error
	}
	_, err := fmt.Fprintf(ctx.Stdout, "\nSettings with their variables: %s %s --help-all\n", program, verb)
	return err
}
