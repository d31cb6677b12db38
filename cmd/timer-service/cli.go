package main

import (
	"context"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/event-service-agent/timer-service/internal/apiclient"
)

// program is the name of the command.
const program = "timer-service"

// A cli is the grammar of the command line. Every setting is a flag too, see
// [settingFlags].
type cli struct {
	Output      string               `short:"o" enum:"text,json" default:"text" placeholder:"FORM" group:"global" help:"Output: text, or json, one object a line."`
	File        string               `name:"config" placeholder:"FILE" group:"global" help:"File with settings (TIMER_CONFIG)."`
	ShowVersion kong.VersionFlag     `name:"version" group:"global" help:"Show the version, as the verb does."`
	TokenFile   kong.FileContentFlag `placeholder:"FILE" group:"global" help:"File with the token for --server, instead of TIMER_HTTP_TOKEN."`

	HelpAll helpAllFlag `group:"global" help:"Show this help with the settings."`

	Serve      serveCmd      `cmd:"" help:"Run the service until SIGINT or SIGTERM."`
	Schedule   scheduleCmd   `cmd:"" help:"Schedule a timer, as in: schedule acme order-1 --in 3s --wait"`
	Cancel     cancelCmd     `cmd:"" help:"Cancel a timer."`
	Table      kong.Plugins  `embed:""` // the verbs of the table of operations
	Health     healthCmd     `cmd:"" help:"Ask a running service whether it is ready."`
	Doctor     doctorCmd     `cmd:"" help:"Look for mistakes: settings, files, database, broker, clock."`
	Publish    publishCmd    `cmd:"" help:"Publish commands from a file."`
	Tail       tailCmd       `cmd:"" help:"Print commands, events or dead letters as they arrive."`
	Tenants    tenantsCmd    `cmd:"" help:"Forget a tenant: delete its timers."`
	Backup     backupCmd     `cmd:"" help:"Copy the SQLite database, also while the service runs."`
	Export     exportCmd     `cmd:"" help:"Write all timers into a file, to move them to another database."`
	Import     importCmd     `cmd:"" help:"Add the timers of an export to an empty database."`
	Recover    recoverCmd    `cmd:"" help:"Recover a lost or older database from the broker."`
	Migrate    migrateCmd    `cmd:"" help:"Migrate the database to the schema of this binary."`
	Provision  provisionCmd  `cmd:"" help:"Create the streams, topics and queues that the service needs."`
	Settings   settingsCmd   `cmd:"" name:"config" help:"Show every setting, its value, and where the value came from."`
	Completion completionCmd `cmd:"" help:"Print what completes verbs and flags in a shell."`
	Version    versionCmd    `cmd:"" help:"Show the version of this binary, of Go and of the schemas."`
}

// A commandLine is a command line that is well formed.
type commandLine struct {
	cli   *cli
	flags settingFlags
	all   bool // the help shows the settings
	kong  *kong.Context
}

// verb returns the verb that was given, such as "serve" or "dlq list".
func (p *commandLine) verb() string { return p.kong.Selected().Path() }

// parse reads the arguments. It returns nil without an error if they asked for
// help, which is printed.
func parse(args []string, stdout, stderr io.Writer) (*commandLine, error) {
	p := &commandLine{cli: new(cli), flags: newSettingFlags()}
	helped := false
	k := grammar(p, stdout, stderr, func(int) { helped = true })
	if len(args) == 0 {
		k.Stdout = stderr
		nothing, err := kong.Trace(k, nil)
		if err != nil {
			return nil, err
		}
		return nil, &usageError{err: errors.Join(errNoVerb, nothing.PrintUsage(false))}
	}
	if args[0] == "help" { // "help schedule" is "schedule --help"
		args = append(slices.Clone(args[1:]), "--help")
	}
	var err error
	p.kong, err = k.Parse(withNegatives(args))
	switch {
	case helped:
		return nil, nil
	case err != nil:
		return nil, misspelled(err)
	}
	if name := withoutValue(args, p.kong.Flags()); name != "" {
		return nil, wrong(p.verb(), "%s has no value: give one, or leave it out", name)
	}
	return p, nil
}

// withoutValue returns the first flag or argument that is given as an empty text, as by a script
// whose variable is empty, or "" if there is none. It would count as left out, and the verb would
// select more than was meant. An empty setting or global flag, which is one of a group, stands for its
// default.
func withoutValue(args []string, flags []*kong.Flag) string {
	for i, arg := range args {
		name, value, joined := strings.Cut(arg, "=")
		switch before := args[max(0, i-1)]; {
		case arg == "" && strings.HasPrefix(before, "-"):
			name = before
		case arg == "":
			name = "an argument"
		case value != "" || !joined || !strings.HasPrefix(name, "-"):
			continue
		}
		if !slices.ContainsFunc(flags, func(f *kong.Flag) bool { return f.Group != nil && name == "--"+f.Name }) {
			return name
		}
	}
	return ""
}

// negative matches a value that kong would take for a flag.
var negative = regexp.MustCompile(`^-\.?[0-9]`)

// withNegatives returns the arguments with each negative value joined to the flag before it, so
// that the rule of the flag refuses it, and not the grammar.
func withNegatives(args []string) (joined []string) {
	for i, arg := range args {
		if n := len(joined); i > 0 && negative.MatchString(arg) && strings.HasPrefix(args[i-1], "-") && !strings.Contains(args[i-1], "=") && !slices.Contains(args[:i], "--") {
			separator := map[bool]string{true: "=", false: ""}[strings.HasPrefix(args[i-1], "--")]
			joined[n-1] += separator + arg
			continue
		}
		joined = append(joined, arg)
	}
	return joined
}

// grammar returns the parser of the command line, which calls exit after it has
// printed help.
func grammar(p *commandLine, stdout, stderr io.Writer, exit func(int)) *kong.Kong {
	p.cli.Table = verbs()
	k, err := kong.New(
		p.cli,
		kong.Name(program),
		kong.Writers(stdout, stderr),
		kong.Exit(exit),
		kong.Embed(p.flags.fields),
		kong.Vars{"version": built().text()},
		kong.Help(p.printHelp),
		kong.Bind(p),
		kong.BindToProvider(func(ctx context.Context, e *env) (*apiclient.Client, error) { return e.service(ctx) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true, FlagsLast: true, WrapUpperBound: 100}),
		kong.Groups{groupGlobal: "Global flags:", groupSettings: "Settings:"},
		kong.PostBuild(func(k *kong.Kong) error {
			k.Model.HelpFlag.Help = "Show this help."
			k.Model.HelpFlag.Group = &kong.Group{Key: groupGlobal, Title: "Global flags:"}
			return nil
		}),
	)
	if err != nil {
		panic("command line: " + err.Error()) // a mistake in the grammar above
	}
	return k
}

// misspelled returns the usageError of a command line that kong refuses.
func misspelled(err error) error {
	help := program
	if at, ok := errors.AsType[*kong.ParseError](err); ok && at.Context != nil && at.Context.Selected() != nil {
		help = at.Context.Selected().FullPath()
	}
	if usage, ok := errors.AsType[*usageError](err); ok { // an error of the verb's own check
		return usage
	}
	text := strings.NewReplacer(": invalid: ", ": ", `one of "",`, "one of ").Replace(err.Error())                          // an error of a value, an empty value
	if name, got, _ := strings.Cut(text, ": expected "); strings.Contains(got, `"EOL"`) || strings.Contains(got, "flag)") { // the next word is a flag
		text = name + ": needs a value"
	}
	return &usageError{err: errors.New(text), help: help + " --help"}
}
