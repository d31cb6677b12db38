package config

// A Setting describes one setting, for tools that offer settings.
type Setting struct {
	Key     string   // as in the file
	Env     string   // as in the environment
	Flag    string   // as a flag, without dashes before it
	Default string   // as a user would write it; may be empty
	Form    string   // which values are valid
	Values  []string // all valid values, if they are few
	Meaning string   // one or two sentences, in Markdown
	Secret  bool     // its value must not be shown
}

// Settings returns the table of all settings, in the order of the
// documentation.
func Settings() []Setting {
	return describe(new(Config).settings())
}

func describe(table []setting) []Setting {
	all := make([]Setting, len(table))
	for i, s := range table {
		all[i] = Setting{s.key, s.env(), s.flag(), s.fallback, s.form, s.names, s.meaning, s.secret}
	}
	return all
}

// A Value is the value of a setting, fit to be shown.
type Value struct {
	Key   string `json:"key"`
	Value string `json:"value"` // without secrets and credentials
	From  string `json:"from"`  // default, file, env or flag; of a quota quotas_file
}

// Values returns every setting, in the order of [Settings].
func (c Config) Values() []Value {
	table := c.settings()
	all := make([]Value, len(table))
	for i, s := range table {
		all[i] = Value{s.key, s.show(), c.From(s.key).String()}
	}
	return all
}
