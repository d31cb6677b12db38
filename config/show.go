package config

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// A Setting describes one setting, for tools that offer them.
type Setting struct {
	Key     string // as in the file
	Env     string // as in the environment
	Flag    string // as a flag, without dashes before it
	Default string // as a user would write it; may be empty
	Form    string // which values it takes
	Meaning string // one or two sentences, in Markdown
	Secret  bool   // whether its value must not be shown
}

// Settings returns the table of all settings, in the order of the
// documentation.
func Settings() []Setting {
	all := make([]Setting, len(settings))
	for i, s := range settings {
		all[i] = Setting{s.key, s.env(), s.flag(), s.fallback, s.form, s.meaning, s.secret}
	}
	return all
}

// A Value is a setting as it stands, fit to be shown.
type Value struct {
	Key   string `json:"key"`
	Value string `json:"value"` // without secrets; of a URL with credentials, what is not
	From  string `json:"from"`  // default, file, env or flag; of a quota quotas_file
}

// Values returns every setting, in the order of [Settings].
func (c Config) Values() []Value {
	all := make([]Value, len(settings))
	for i, s := range settings {
		all[i] = Value{s.key, s.show(c), c.origins[s.key].source.String()}
	}
	return all
}

// Dump writes every setting with its value and where it came from, one a line.
func (c Config) Dump(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, v := range c.Values() {
		fmt.Fprintf(t, "%s\t%s\t%s\n", v.Key, orDash(v.Value), v.From)
	}
	return t.Flush()
}

const intro = `# Configuration

Every setting of the service. This page is written by a test of package config
from the table that the service itself uses.

One setting has one name, spelled three ways: ` + "`polling_interval`" + ` in the file,
` + "`TIMER_POLLING_INTERVAL`" + ` in the environment, ` + "`--polling-interval`" + ` as a flag. A flag
wins over the environment, the environment over the file, the file over the
default. An empty value stands for the default.

The file is YAML, one ` + "`key: value`" + ` a line. ` + "`--config`" + ` or ` + "`TIMER_CONFIG`" + ` names it; none
is read otherwise.

- A duration is a bare number of milliseconds, or has units: ` + "`250ms`, `30s`, `5m`, `2h`, `7d`, `1d12h`" + `.
- A size is a bare number of bytes, or has a unit: ` + "`512MiB`, `8GiB`" + ` (powers of 1024), ` + "`10GB`" + ` (powers of 1000).
- What is secret is never printed: not by ` + "`timer-service config`" + `, nor in logs or errors.
- A name that is no setting is a mistake, in the file, among flags, and among
  variables that begin with ` + "`TIMER_`" + ` (but for ` + "`TIMER_CONFIG`" + ` and ` + "`TIMER_TEST_…`" + `). The service
  reports all mistakes at once and does not start; but a flag that does not exist is told first, by
  itself, and what is wrong with the file of quotas when all else is right.

` + "`timer-service config`" + ` prints every setting with its value and where it came from.

| setting | default | takes | |
| --- | --- | --- | --- |
`

const quotasIntro = `
## Quotas

` + "`quotas_file`" + ` names a YAML file: the limits of all tenants under ` + "`default`" + `, and those of some under ` + "`tenants`" + `, where
what is not given is the default's. [quotas.yaml](quotas.yaml) is an example; [operations.md](operations.md#quotas) says what the limits do.

| key | takes | |
| --- | --- | --- |
`

// Markdown returns the documentation of all settings, and of the file with
// quotas.
func Markdown() string {
	var b strings.Builder
	b.WriteString(intro)
	for _, s := range settings {
		takes := s.form
		if s.secret {
			takes += "; secret"
		}
		fallback := "-"
		if s.fallback != "" {
			fallback = "`" + s.fallback + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.env(), fallback, takes, s.meaning)
	}
	b.WriteString(quotasIntro)
	for _, l := range limits {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", l.key, l.form, l.meaning)
	}
	return b.String()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
