package config

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	envPrefix  = "TIMER_"
	envFile    = envPrefix + "CONFIG" // names the configuration file
	envTesting = envPrefix + "TEST_"  // prefix of variables for tests, which are none of ours
)

// A Source says where a setting came from.
type Source uint8

// Sources, each winning over those before it.
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

// An origin is where a setting was given. The zero value is the default.
type origin struct {
	source Source
	place  string // for mistakes: a variable, a flag, or a line of a file
}

// where returns the place, or "default".
func (o origin) where() string {
	if o.source == FromDefault {
		return o.source.String()
	}
	return o.place
}

// Load returns the configuration of flags, by name without dashes before it;
// environ, as [os.Environ] returns it; and the YAML file, or the one that
// TIMER_CONFIG names if file is empty. An empty value stands for the default.
//
// The error joins all mistakes, each a [*Mistake], but for those of a file
// that cannot be read.
func Load(flags map[string]string, environ []string, file string) (Config, error) {
	fromEnv, envFile := readEnv(environ)
	if file == "" {
		file = envFile
	}
	var all []given
	var errs []error
	if file != "" {
		fromFile, err := readFile(file)
		if err != nil {
			errs = append(errs, err)
		}
		all = append(all, fromFile...)
	}
	all = append(all, fromEnv...)
	all = append(all, readFlags(flags)...)

	c := Default()
	for _, g := range all {
		if err := c.apply(g); err != nil {
			errs = append(errs, err)
		}
	}
	errs = append(errs, c.check()...)
	if err := errors.Join(errs...); err != nil {
		return Config{}, err
	}
	return c, nil
}

// apply sets one setting.
func (c *Config) apply(g given) error {
	s, known := lookUp(g.key)
	if !known {
		return g.unknown()
	}
	value := strings.TrimSpace(g.value)
	shown := value
	switch {
	case s.secret && value != "":
		shown = hidden
	case strings.Contains(value, "://"): // perhaps in the wrong place, with a password
		shown = NewSecret(value).URL()
	}
	if !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl) {
		return &Mistake{Key: s.key, From: g.place, Fix: "holds a control character or is no UTF-8"}
	}
	if value == "" {
		value = s.fallback
	}
	if err := s.set(c, value); err != nil {
		return &Mistake{Key: s.key, Value: shown, From: g.place, Fix: err.Error()}
	}
	c.origins[s.key] = g.origin
	return nil
}

// unknown returns the mistake of a name that is none of ours, or of a value
// that is not a single one.
func (g given) unknown() error {
	m := &Mistake{Key: clip(g.name), From: g.place, Fix: "no such setting"}
	if _, known := lookUp(g.name); known {
		m.Fix = "must be one plain value"
		return m
	}
	names := make([]string, len(settings))
	for i, s := range settings {
		names[i] = s.nameIn(g.source)
	}
	if near := closest(g.name, names); near != "" {
		m.Fix += "; did you mean " + near + "?"
	}
	return m
}

// nameIn returns the name of a setting in a source.
func (s setting) nameIn(from Source) string {
	switch from {
	case FromEnv:
		return s.env()
	case FromFlag:
		return "--" + s.flag()
	}
	return s.key
}

// readEnv returns what the environment gives, in the order of names, and the
// name of the configuration file.
func readEnv(environ []string) (all []given, file string) {
	values := make(map[string]string)
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		if strings.HasPrefix(name, envPrefix) && !strings.HasPrefix(name, envTesting) {
			values[name] = value
		}
	}
	file = values[envFile]
	delete(values, envFile)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		g := given{name: name, value: values[name], origin: origin{FromEnv, name}}
		if key := strings.TrimPrefix(name, envPrefix); key == strings.ToUpper(key) {
			g.key = strings.ToLower(key)
		}
		all = append(all, g)
	}
	return all, file
}

// readFlags returns what the flags give, in the order of names.
func readFlags(flags map[string]string) []given {
	var all []given
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		dashed := "--" + strings.ReplaceAll(name, "_", "-")
		all = append(all, given{
			name: dashed, key: strings.ReplaceAll(name, "-", "_"),
			value: flags[name], origin: origin{FromFlag, dashed},
		})
	}
	return all
}
