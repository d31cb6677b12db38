package main

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/timer"
)

// These are the groups of flags in help screens.
const (
	groupGlobal   = "global"
	groupSettings = "settings"
)

// valuesTag is the tag of a flag that lists the values of its setting, if these are few.
const valuesTag = "values"

// settingFlags has a flag for every setting. All verbs take all of them, so that the same
// flags fit the service and its clients. Help shows the flags that matter to the verb.
type settingFlags struct {
	fields any // pointer to a struct with a *string for each setting, in their order
}

func newSettingFlags() settingFlags {
	all := config.Settings()
	fields := make([]reflect.StructField, len(all))
	for i, s := range all {
		help := meaning(s) + " (" + config.EnvPrefix + strings.ToUpper(s.Key) + ")"
		if s.Secret {
			help += " A secret belongs there, or into the file: as a flag it is refused."
		}
		fields[i] = reflect.StructField{
			Name: fmt.Sprintf("Setting%d", i),
			Type: reflect.TypeFor[*string](), // with a pointer an empty value counts as given
			Tag: reflect.StructTag(fmt.Sprintf(`name:%q help:%q placeholder:%q group:%q %s:%q`,
				s.Flag, help, placeholder(s), groupSettings, valuesTag, strings.Join(s.Values, ","))),
		}
	}
	return settingFlags{fields: reflect.New(reflect.StructOf(fields)).Interface()}
}

// given returns the flags that were given, by name without dashes.
func (f settingFlags) given() map[string]string {
	values := make(map[string]string)
	fields := reflect.ValueOf(f.fields).Elem()
	for i, s := range config.Settings() {
		if v, _ := fields.Field(i).Interface().(*string); v != nil {
			values[s.Flag] = *v
		}
	}
	return values
}

// meaning returns the description of a setting as plain text.
func meaning(s config.Setting) string {
	text := strings.ReplaceAll(s.Meaning, "`", "")
	return strings.ReplaceAll(text, "$", "$$") // kong expands ${…}
}

// placeholder returns the default, or the last word of the key without one.
func placeholder(s config.Setting) string {
	if s.Default != "" {
		return s.Default
	}
	return strings.ToUpper(s.Key[strings.LastIndexByte(s.Key, '_')+1:])
}

// serviceSettings are the settings that matter to a verb that asks a service, or its database.
var serviceSettings = []string{"db_path", "db_url", "server", "http_socket", "http_addr", "http_prefix", "http_tls_cert", "http_token"}

// These verbs ask no service.
var (
	bareVerbs  = []string{"", "version", "completion"} // work with a wrong configuration; "" is the program
	localVerbs = []string{"serve", "doctor", "migrate", "provision", "backup", "export", "import", "recover"}
)

func asksService(verb string) bool {
	return verb != "config" && !slices.Contains(bareVerbs, verb) && !slices.Contains(localVerbs, verb)
}

func isSetting(f *kong.Flag) bool { return f.Group != nil && f.Group.Key == groupSettings }

// matters reports whether a flag matters to a verb.
func matters(verb string, f *kong.Flag) bool {
	switch key := strings.ReplaceAll(f.Name, "-", "_"); {
	case key == "version": // there is a verb of this name
		return false
	case key == "token_file":
		return asksService(verb)
	case !isSetting(f):
		return true
	case asksService(verb):
		return slices.Contains(serviceSettings, key)
	default: // config shows all settings
		return !slices.Contains(bareVerbs, verb) && (key != "server" || verb == "config")
	}
}

// A number and a perSecond are values of flags that must not be negative.
type (
	number    int64
	perSecond float64
)

// Validate refuses a negative value.
func (n number) Validate() error { return perSecond(n).Validate() }

// Validate refuses a negative value.
func (p perSecond) Validate() error {
	if p < 0 {
		return errors.New("must not be negative")
	}
	return nil
}

// A duration is the value of a flag: "3s", "90m", "7d", or 0.
type duration time.Duration

// UnmarshalText reads a duration, which may be negative. A number without a unit is
// refused.
func (d *duration) UnmarshalText(text []byte) error {
	parsed, err := config.ParseWithUnit(string(text))
	if err != nil {
		return fmt.Errorf("must be a duration with a unit, such as 3s, 90m or 7d, not %s", timer.Quote(string(text)))
	}
	*d = duration(parsed)
	return nil
}

// A timeout is a duration that must be positive.
type timeout duration

// UnmarshalText reads a duration.
func (t *timeout) UnmarshalText(text []byte) error { return (*duration)(t).UnmarshalText(text) }

// Validate refuses one that would end before it began.
func (t timeout) Validate() error {
	if t <= 0 {
		return errors.New("must be longer than 0, such as 5s")
	}
	return nil
}

// milliseconds returns the duration as the API takes it, rounded up.
func (d *duration) milliseconds() string {
	if d == nil {
		return ""
	}
	return fmt.Sprintf("%dms", (time.Duration(*d) + time.Millisecond - 1).Milliseconds())
}
