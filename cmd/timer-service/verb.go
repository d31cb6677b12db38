package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/alecthomas/kong"

	"github.com/event-service-agent/timer-service/admin"
)

// operations are the rows of the table of operations, by id.
var operations = func() map[string]admin.Operation {
	all := make(map[string]admin.Operation, len(admin.Operations))
	for _, o := range admin.Operations {
		all[o.ID] = o
	}
	return all
}()

// A verb is a verb of the table of operations, as a command of kong.
type verb struct {
	row   admin.Verb
	Flags any `embed:""` // pointer to a struct with a field for each of params
	// params are the parameters of all operations of the verb, by flag, and flags of its own.
	params []admin.Param
}

// A verbGroup has the verbs below one verb.
type verbGroup struct {
	Verbs kong.Plugins `embed:""`
}

// verbs returns the verbs of the table as commands for kong: those of one word, then groups.
func verbs() (all kong.Plugins) {
	groups := make(map[string]verbGroup)
	for _, row := range admin.Verbs {
		group, name, below := strings.Cut(row.Name, " ")
		if !below {
			all = append(all, command(group, row.Help, *newVerb(row)))
			continue
		}
		groups[group] = verbGroup{append(groups[group].Verbs, command(name, row.Help, *newVerb(row)))}
	}
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		all = append(all, command(group, admin.Groups[group], groups[group]))
	}
	return all
}

// command returns a struct with a field that is a command for kong.
func command(name, help string, value any) any {
	tag := reflect.StructTag(fmt.Sprintf("cmd:\"\" name:%q help:%q", name, help))
	made := reflect.New(reflect.StructOf([]reflect.StructField{{Name: exported(name), Type: reflect.TypeOf(value), Tag: tag}}))
	made.Elem().Field(0).Set(reflect.ValueOf(value))
	return made.Interface()
}

// exported returns the name of a field for a name in lower case with dashes.
func exported(name string) string {
	return "F_" + strings.ReplaceAll(name, "-", "_")
}

// newVerb returns a verb that takes the parameters of all of its operations.
func newVerb(row admin.Verb) *verb {
	v := &verb{row: row}
	var fields []reflect.StructField
	add := func(p admin.Param) {
		name := flagOf(p)
		fixed := func(c admin.Case) bool { return strings.Contains("&"+c.Query+"&"+c.JSONQuery, "&"+p.Name+"=") }
		if name == "-" || slices.ContainsFunc(v.params, func(q admin.Param) bool { return flagOf(q) == name }) || slices.ContainsFunc(row.Cases, fixed) || slices.Contains(row.Omit, p.Name) {
			return
		}
		v.params = append(v.params, p)
		arg := slices.IndexFunc(row.Args, func(a string) bool { return strings.TrimRight(a, "?*+") == p.Name })
		tag := fmt.Sprintf("name:%q help:%q sep:\"none\"", name, p.Tag.Get("doc"))
		as := p.Type
		switch enum := p.Tag.Get("enum"); {
		case arg >= 0 && strings.HasSuffix(row.Args[arg], "?"):
			tag += ` arg:"" optional:""`
		case arg >= 0 && strings.HasSuffix(row.Args[arg], "*"):
			tag, as = tag+` arg:"" optional:""`, reflect.SliceOf(as)
		case arg >= 0 && strings.HasSuffix(row.Args[arg], "+"):
			tag, as = tag+` arg:""`, reflect.SliceOf(as)
		case arg >= 0:
			tag += ` arg:""`
		case enum != "":
			tag += fmt.Sprintf(` placeholder:%q default:"" enum:%q`, strings.ToUpper(name), ","+enum)
		case as.Kind() == reflect.Bool:
		case p.Tag.Get("required") == "true":
			tag += fmt.Sprintf(` required:"" placeholder:%q`, cmp.Or(p.Tag.Get("example"), strings.ToUpper(name)))
		case p.Tag.Get("default") != "":
			tag += fmt.Sprintf(` default:%q`, p.Tag.Get("default"))
		default:
			tag += fmt.Sprintf(` placeholder:%q`, cmp.Or(p.Tag.Get("example"), strings.ToUpper(name)))
		}
		fields = append(fields, reflect.StructField{Name: exported(name), Type: as, Tag: reflect.StructTag(tag)})
	}
	if row.Also != nil {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(row.Also)) {
			add(admin.Param{StructField: f, Name: f.Tag.Get("query")})
		}
	}
	for _, c := range row.Cases {
		for _, p := range operations[c.ID].Params {
			add(p)
		}
	}
	v.Flags = reflect.New(reflect.StructOf(fields)).Interface()
	return v
}

// flagOf returns the name of the flag for a parameter: "due-from" for "dueFrom",
// "correlation" for "correlationId".
func flagOf(p admin.Param) string {
	if name := p.Tag.Get("flag"); name != "" {
		return name
	}
	var b strings.Builder
	for _, r := range p.Name {
		if unicode.IsUpper(r) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return strings.TrimSuffix(b.String(), "-id")
}

// Help is printed below the summary.
func (v verb) Help() string { return v.row.About }

// values returns the values of a flag or an argument as texts, none if it is not given. A default
// counts as not given.
func (v *verb) values(flag string) (all []string) {
	f := reflect.ValueOf(v.Flags).Elem().FieldByName(exported(flag))
	switch {
	case !f.IsValid() || f.IsZero():
		return nil
	case f.Kind() != reflect.Slice:
		return []string{fmt.Sprint(f.Interface())}
	}
	for i := range f.Len() {
		all = append(all, fmt.Sprint(f.Index(i).Interface()))
	}
	return all
}

func (v *verb) given(flag string) bool {
	i := slices.IndexFunc(v.params, func(p admin.Param) bool { return flagOf(p) == flag })
	all := v.values(flag)
	return len(all) > 0 && all[0] != v.params[i].Tag.Get("default")
}

// which returns the operation that the flags ask for.
func (v *verb) which() admin.Case {
	for _, c := range v.row.Cases {
		if c.If == "" || v.given(c.If) {
			return c
		}
	}
	return v.row.Cases[len(v.row.Cases)-1]
}

// shown returns how a flag or an argument is written.
func (v *verb) shown(flag string) string {
	if slices.ContainsFunc(v.row.Args, func(a string) bool { return strings.TrimRight(a, "?*+") == flag }) {
		return "<" + flag + ">"
	}
	return "--" + flag
}

// Validate refuses flags that are missing, exclude each other, or mean nothing together.
func (v *verb) Validate() error {
	for _, pair := range v.row.Xor {
		if one, other, _ := strings.Cut(pair, " "); v.given(one) && v.given(other) {
			return fmt.Errorf("%s and %s exclude each other; give one", v.shown(one), v.shown(other))
		}
	}
	if limit := v.values("limit"); len(limit) > 0 && strings.HasPrefix(limit[0], "-") { // pages have limits of their own
		return errors.New("--limit must not be negative; 0 is all")
	}
	c := v.which()
	if len(c.Needs) > 0 && !slices.ContainsFunc(c.Needs, v.given) {
		return errors.New(c.Say)
	}
	for _, p := range v.params {
		flag := flagOf(p)
		fits := func(of admin.Case) bool {
			return slices.ContainsFunc(operations[of.ID].Params, func(q admin.Param) bool { return flagOf(q) == flag })
		}
		i := slices.IndexFunc(v.row.Cases, fits)
		switch {
		case !v.given(flag) || fits(c) || i < 0:
		case v.row.Cases[i].If == "":
			return fmt.Errorf("%s does not go with %s", v.shown(flag), v.shown(c.If))
		default:
			return fmt.Errorf("%s goes with %s", v.shown(flag), v.shown(v.row.Cases[i].If))
		}
	}
	return nil
}

// Run asks for the operation, and prints the answer.
func (v *verb) Run(ctx context.Context, e *env) error {
	c := v.which()
	op := operations[c.ID]
	find := e.service
	if op.Method == http.MethodGet && !op.Live {
		find = e.reader
	}
	client, err := find(ctx)
	if err != nil {
		return err
	}
	a := &answer{verb: v, Case: c, op: op, env: e, client: client}
	return a.print(ctx)
}

// path returns the path and the query of a request of an operation. Values of parameters are
// those of the flags, unless they are given.
func (v *verb) path(op admin.Operation, c admin.Case, e *env, given map[string]string) string {
	path, query := op.Path, make(url.Values)
	fixed := c.Query
	if e.out.json && c.JSONQuery != "" {
		fixed = c.JSONQuery
	}
	more, _ := url.ParseQuery(fixed) // it is a constant
	for _, p := range op.Params {
		values := v.values(flagOf(p))
		if value, is := given[p.Name]; is {
			values = []string{value}
		} else if values == nil && p.Type.Kind() == reflect.Bool {
			values = []string{"false"}
		}
		switch {
		case more.Has(p.Name):
			query[p.Name] = more[p.Name]
		case p.InPath:
			path = strings.ReplaceAll(path, "{"+p.Name+"}", url.PathEscape(append(values, "")[0]))
		case len(values) > 0 && values[0] != "":
			query[p.Name] = values
		}
	}
	return strings.TrimSuffix(path+"?"+query.Encode(), "?")
}
