package config

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// EnvPrefix is the prefix of the environment variable of a setting; the key follows, in
// capitals.
const EnvPrefix = "TIMER_"

const (
	envFile    = EnvPrefix + "CONFIG" // names the configuration file
	envTesting = EnvPrefix + "TEST_"  // prefix of variables for tests, which are not settings
)

// A Source says where a setting came from.
type Source uint8

// These are the sources. Each wins over the sources before it.
const (
	FromDefault Source = iota
	FromFile
	FromEnv
	FromFlag
)

// String returns "default", "file", "env" or "flag".
func (s Source) String() string {
	return [...]string{"default", "file", "env", "flag"}[s]
}

// An origin says where a setting was given. The zero value is the default.
type origin struct {
	source   Source
	location string // for mistakes: a variable, a flag, or a line of a file
}

// where returns the location, or "default".
func (o origin) where() string { return cmp.Or(o.location, FromDefault.String()) }

// Load returns the configuration of flags, by name without the dashes; environ, as
// [os.Environ] returns it; and the YAML file, or the file that TIMER_CONFIG names if file is
// empty. An empty value stands for the default, except for settings that it switches off.
//
// The error joins all mistakes. Each is a [*Mistake], unless a file cannot be read.
func Load(flags map[string]string, environ []string, file string) (Config, error) {
	fromEnv, envFile, ignored := readEnv(environ)
	file = cmp.Or(file, envFile)
	var fromFile []givenSetting
	errs := make([]error, 1)
	if file != "" {
		fromFile, errs[0] = loadYAML(yamlFile{what: "configuration file", name: file}, "", (*yamlFile).settings)
	}
	c := Default()
	c.ignored, c.file = ignored, file
	table := c.settings()
	for _, g := range slices.Concat(fromFile, fromEnv, readFlags(flags)) {
		if err := g.apply(table); err != nil {
			errs = append(errs, err)
			continue
		}
		if s, _ := lookUp(table, g.key); strings.TrimSpace(g.value) == "" && !s.empty {
			delete(c.origins, g.key) // the default applies again
			continue
		}
		c.origins[g.key] = g.origin
	}
	if err := errors.Join(append(errs, c.check()...)...); err != nil {
		return Config{}, err
	}
	return c, nil
}

// apply sets the setting of g.
func (g givenSetting) apply(table []setting) error {
	s, known := lookUp(table, g.key)
	if !known {
		return g.unknown(table)
	}
	value := strings.TrimSpace(g.value)
	m := &Mistake{Key: s.key, Value: value, From: g.location}
	switch {
	case s.secret && value != "":
		m.Value = hidden
	case strings.Contains(value, "://"): // may be a URL in the wrong setting, with a password
		m.Value = NewSecret(value).URL()
	}
	if !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl) {
		m.Value, m.Fix = "", "holds a control character or is no UTF-8"
		return m
	}
	if g.source == FromFlag && s.isSecret(value) {
		m.Fix = "other users of the machine see a secret in a flag: set " + s.env() + ", or " + s.key + " in the file of --config"
		return m
	}
	if value == "" && !s.empty {
		value = s.fallback
	}
	if err := s.set(value); err != nil {
		m.Fix = err.Error()
		return m
	}
	return nil
}

// unknown returns the mistake of an unknown name, or of a value that is not a single one.
func (g givenSetting) unknown(table []setting) error {
	fix := "no such setting" + didYouMean(g.name, names(table, g.source))
	if _, known := lookUp(table, g.name); known {
		fix = "must be one plain value"
	}
	return &Mistake{Key: clip(g.name), From: g.location, Fix: fix}
}

// names returns the names of settings, as a source spells them.
func names(table []setting, from Source) []string {
	all := make([]string, len(table))
	for i, s := range table {
		switch from {
		case FromEnv:
			all[i] = s.env()
		case FromFlag:
			all[i] = "--" + s.flag()
		default:
			all[i] = s.key
		}
	}
	return all
}

// readEnv returns the settings of the environment, in the order of names, the name of the
// configuration file, and the variables that Kubernetes has set.
func readEnv(environ []string) (all []givenSetting, file string, ignored []string) {
	values := make(map[string]string)
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		if strings.HasPrefix(name, EnvPrefix) && !strings.HasPrefix(name, envTesting) {
			values[name] = value
		}
	}
	file = values[envFile]
	delete(values, envFile)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if fromKubernetes(name, values[name]) {
			ignored = append(ignored, name)
			continue
		}
		g := givenSetting{name: name, value: values[name], origin: origin{FromEnv, name}}
		if key := strings.TrimPrefix(name, EnvPrefix); key == strings.ToUpper(key) {
			g.key = strings.ToLower(key)
		}
		all = append(all, g)
	}
	return all, file, ignored
}

// readFlags returns the settings of the flags, in the order of names.
func readFlags(flags map[string]string) []givenSetting {
	var all []givenSetting
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		dashed := "--" + strings.ReplaceAll(name, "_", "-")
		all = append(all, givenSetting{
			name: dashed, key: strings.ReplaceAll(name, "-", "_"),
			value: flags[name], origin: origin{FromFlag, dashed},
		})
	}
	return all
}
