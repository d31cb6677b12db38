package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/event-service-agent/timer-service/config"
)

// Groups of flags in help screens.
const (
	groupGlobal   = "global"
	groupSettings = "settings"
)

// settingFlags are a flag for every setting. All verbs take all of them, so
// that the same flags fit the service and its clients.
type settingFlags struct {
	fields any // pointer to a struct with one *string a setting, in their order
}

func newSettingFlags() settingFlags {
	all := config.Settings()
	fields := make([]reflect.StructField, len(all))
	for i, s := range all {
		fields[i] = reflect.StructField{
			Name: fmt.Sprintf("Setting%d", i),
			Type: reflect.TypeFor[*string](), // a flag given as empty is given
			Tag: reflect.StructTag(fmt.Sprintf(`name:%q help:%q placeholder:%q group:%q`,
				s.Flag, meaning(s), placeholder(s), groupSettings)),
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

// meaning returns what a setting means, as plain text.
func meaning(s config.Setting) string {
	text := strings.ReplaceAll(s.Meaning, "`", "")
	return strings.ReplaceAll(text, "$", "$$") // kong fills in ${…}
}

// placeholder returns the default, or else the last word of the key.
func placeholder(s config.Setting) string {
	if s.Default != "" {
		return s.Default
	}
	return strings.ToUpper(s.Key[strings.LastIndexByte(s.Key, '_')+1:])
}

// clientSettings are what one needs who talks to the broker.
var clientSettings = []string{
	"db_path", "broker", "broker_url", "broker_username", "broker_password", "broker_tls_ca", "broker_tls_cert", "broker_tls_key",
	"commands_topic", "events_topic", "dead_letters_topic",
	"nats_port", "nats_stream", "nats_domain", "nats_inbox", "nats_credentials", "nats_nkey", "nats_token",
	"kafka_sasl", "rabbitmq_exchange", "log_level",
}

// provisionSettings are what one needs who makes what the broker needs.
var provisionSettings = append(slices.Clone(clientSettings), "nats_max_bytes", "nats_max_age", "nats_min_age", "kafka_max_age", "rabbitmq_queue_type")

// shownSettings are the settings that matter to a verb, by key. What is not
// here shows all of them.
var shownSettings = map[string][]string{
	"schedule":    clientSettings,
	"cancel":      clientSettings,
	"get":         {"db_path", "db_url"},
	"list":        {"db_path", "db_url"},
	"publish":     clientSettings,
	"tail":        clientSettings,
	"dlq":         {},
	"dlq list":    clientSettings,
	"dlq show":    clientSettings,
	"dlq replay":  clientSettings,
	"dlq discard": clientSettings,
	"migrate":     {"db_path", "db_url"},
	"backup":      {"db_path", "db_url"},
	"export":      {"db_path", "db_url"},
	"import":      {"db_path", "db_url", "durability"},
	"stats":       {"db_path", "db_url"},
	"provision":   provisionSettings,
	"version":     {},
	program:       {},
}

// printHelp prints the help of a verb with the settings that matter to it.
func printHelp(opt kong.HelpOptions, ctx *kong.Context) error {
	name := program
	if verb := ctx.Selected(); verb != nil {
		name = verbOf(verb)
	}
	shown, some := shownSettings[name]
	for _, f := range ctx.Model.Flags {
		key := strings.ReplaceAll(f.Name, "-", "_")
		f.Hidden = some && f.Group != nil && f.Group.Key == groupSettings && !slices.Contains(shown, key)
	}
	return kong.DefaultHelpPrinter(opt, ctx)
}
