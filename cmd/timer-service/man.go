package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

type manCmd struct {
	Dir string `arg:"" help:"Folder for the pages."`
}

// Help is printed below the summary.
func (manCmd) Help() string {
	return `Examples:

    timer-service man /usr/local/share/man/man1`
}

// Run writes timer-service.1, and a page for each verb.
func (m *manCmd) Run(e *env) error {
	p := &parsed{cli: new(cli), flags: newSettingFlags()}
	root := grammar(p, nil, nil, func(int) {}).Model.Node
	b := built()
	date, _, _ := strings.Cut(b.Time, "T")
	if date == "" { // built outside a repository
		date = e.now().Format(time.DateOnly)
	}
	footer := fmt.Sprintf("%s %s", quoted(date), quoted(program+" "+b.Version))
	nodes := append([]*kong.Node{root}, root.Leaves(true)...)
	for _, node := range nodes {
		name := manName(node)
		page := manPage(node, root, fmt.Sprintf(".TH %s 1 %s\n", strings.ToUpper(name), footer))
		if err := os.WriteFile(filepath.Join(m.Dir, name+".1"), []byte(page), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// manName returns the name of a page, as "man timer-service dlq list" looks for it.
func manName(node *kong.Node) string {
	return strings.ReplaceAll(strings.TrimSpace(program+" "+node.Path()), " ", "-")
}

// manPage returns the page of the program or of a verb in the language of roff.
func manPage(node, root *kong.Node, title string) string {
	var w strings.Builder
	w.WriteString(title)
	summary, about, _ := strings.Cut(node.Help, "\n")
	if node == root {
		summary, about, _ = strings.Cut(description, "\n")
	}
	fmt.Fprintf(&w, ".SH NAME\n%s \\- %s\n.SH SYNOPSIS\n.nf\n%s\n.fi\n", roff(manName(node)), roff(strings.TrimSuffix(summary, ".")), roff(node.Summary()))
	w.WriteString(".SH DESCRIPTION\n" + manText(about+"\n\n"+node.Detail))
	if node == root {
		w.WriteString(".SH COMMANDS\n")
		for _, verb := range root.Leaves(true) {
			manEntry(&w, verb.Path(), verb.Help)
		}
	}
	if len(node.Positional) > 0 {
		w.WriteString(".SH ARGUMENTS\n")
		for _, arg := range node.Positional {
			manEntry(&w, arg.Summary(), arg.Help)
		}
	}
	manFlags(&w, "OPTIONS", node, func(f *kong.Flag) bool { return f.Group == nil })
	manFlags(&w, "GLOBAL OPTIONS", root, func(f *kong.Flag) bool { return f.Group != nil && f.Group.Key == groupGlobal })
	if node == root {
		manFlags(&w, "SETTINGS", root, func(f *kong.Flag) bool { return f.Group != nil && f.Group.Key == groupSettings })
		return w.String()
	}
	fmt.Fprintf(&w, ".SH SEE ALSO\n.BR %s (1)\n", roff(program))
	return w.String()
}

// manFlags writes a section with the flags of a node that are wanted, if there are any.
func manFlags(w *strings.Builder, section string, node *kong.Node, wanted func(*kong.Flag) bool) {
	flags := slices.DeleteFunc(slices.Clone(node.Flags), func(f *kong.Flag) bool { return f.Hidden || !wanted(f) })
	if len(flags) == 0 {
		return
	}
	fmt.Fprintf(w, ".SH %s\n", section)
	for _, f := range flags {
		name := f.String()
		if f.Short != 0 {
			name = fmt.Sprintf("-%c, %s", f.Short, strings.TrimPrefix(name, fmt.Sprintf("-%c, ", f.Short)))
		}
		manEntry(w, name, f.Help)
	}
}

func manEntry(w *strings.Builder, term, text string) {
	fmt.Fprintf(w, ".TP\n\\fB%s\\fR\n%s\n", roff(term), roff(text))
}

// manText returns paragraphs. Indented lines are examples, printed as they are.
func manText(text string) string {
	var w strings.Builder
	for i, paragraph := range strings.Split(strings.TrimSpace(text), "\n\n") {
		switch {
		case paragraph == "Examples:":
			w.WriteString(".SH EXAMPLES\n")
		case strings.HasPrefix(paragraph, "    "):
			fmt.Fprintf(&w, ".nf\n%s\n.fi\n", roff(strings.TrimPrefix(strings.ReplaceAll(paragraph, "\n    ", "\n"), "    ")))
		case i > 0:
			fmt.Fprintf(&w, ".PP\n%s\n", roff(paragraph))
		default:
			fmt.Fprintf(&w, "%s\n", roff(paragraph))
		}
	}
	return w.String()
}

// roff escapes what roff would take as its own: backslashes, dashes, which it may make
// longer, quotes, which it may bend, and a dot or quote that begins a line.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, `"`, `\(dq`, "…", "...").Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

func quoted(text string) string { return `"` + text + `"` }
