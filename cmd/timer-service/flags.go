package main

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/event-service-agent/timer-service/admin"
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

// provisionSettings are the settings that matter when streams and queues are created.
var provisionSettings = []string{
	"db_path", "broker", "broker_url", "broker_username", "broker_password", "broker_tls_ca", "broker_tls_cert", "broker_tls_key",
	"commands_topic", "events_topic", "dead_letters_topic",
	"nats_listen", "nats_port", "nats_stream", "nats_domain", "nats_inbox", "nats_credentials", "nats_nkey", "nats_token", "nats_publish",
	"kafka_sasl", "rabbitmq_exchange", "log_level", "nats_max_bytes", "nats_max_age", "nats_min_age", "kafka_max_age", "rabbitmq_queue_type",
}

// serviceSettings are the settings that matter to a verb that asks a service, or its database.
var serviceSettings = []string{"db_path", "db_url", "server", "http_socket", "http_addr", "http_prefix", "http_tls_cert", "http_token"}

// fileSettings are the settings that matter to a verb that works on the database itself.
var fileSettings = []string{"db_path", "db_url"}

// shownSettings are the settings that matter to a verb, by key. The help of a
// verb that is not here shows all of them; "" is the program.
var shownSettings = func() map[string][]string {
	all := map[string][]string{
		"": {}, "version": {}, "completion": {}, "tenants": {},
		"tenants forget": serviceSettings, "schedule": serviceSettings, "cancel": serviceSettings, "publish": serviceSettings, "tail": serviceSettings,
		"migrate": fileSettings, "backup": fileSettings, "export": fileSettings,
		"import":    append(slices.Clone(fileSettings), "durability"),
		"provision": provisionSettings,
	}
	for group := range admin.Groups {
		all[group] = nil
	}
	for _, v := range admin.Verbs {
		all[v.Name] = serviceSettings
	}
	return all
}()

// localVerbs work on files, databases and brokers by themselves, and ask no service.
var localVerbs = []string{"serve", "doctor", "migrate", "provision", "backup", "export", "import", "recover"}

func isSetting(f *kong.Flag) bool { return f.Group != nil && f.Group.Key == groupSettings }

// matters reports whether a flag matters to a verb. The flag with the token matters if the
// verb asks a service.
func matters(verb string, f *kong.Flag) bool {
	shown, some := shownSettings[verb]
	asksNone := verb == "config" || slices.Contains(localVerbs, verb)
	key := strings.ReplaceAll(f.Name, "-", "_")
	switch key {
	case "token_file":
		return !asksNone && (!some || slices.Contains(shown, "server"))
	case "server":
		return verb == "config" || !asksNone && (!some || slices.Contains(shown, key)) // config shows all settings
	case "version": // there is a verb of this name
		return false
	}
	return !some || !isSetting(f) || slices.Contains(shown, key)
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
