package app_test

import (
	"reflect"
	"testing"

	"github.com/event-service-agent/timer-service/app"
)

// TestHooksCallBoth: each hook of both is called, whichever are set.
func TestHooksCallBoth(t *testing.T) {
	t.Parallel()
	called := make(map[string]int)
	hooks := func() (h app.Hooks) {
		v := reflect.ValueOf(&h).Elem()
		for i := range v.NumField() {
			name, kind := v.Type().Field(i).Name, v.Field(i).Type()
			v.Field(i).Set(reflect.MakeFunc(kind, func([]reflect.Value) (out []reflect.Value) {
				called[name]++
				for o := range kind.NumOut() {
					out = append(out, reflect.Zero(kind.Out(o)))
				}
				return out
			}))
		}
		return h
	}
	call := func(h app.Hooks) {
		v := reflect.ValueOf(h)
		for i := range v.NumField() {
			var in []reflect.Value
			for a := range v.Field(i).Type().NumIn() {
				in = append(in, reflect.Zero(v.Field(i).Type().In(a)))
			}
			v.Field(i).Call(in)
		}
	}
	call(hooks().And(hooks()))
	for i := range reflect.TypeFor[app.Hooks]().NumField() {
		name := reflect.TypeFor[app.Hooks]().Field(i).Name
		if called[name] != 2 {
			t.Errorf("%s was called %d times, want 2", name, called[name])
		}
	}
	call(app.Hooks{}.And(app.Hooks{}))
	clear(called)
	call(hooks().And(app.Hooks{}))
	call(app.Hooks{}.And(hooks()))
	if called["Watch"] != 2 || called["Reached"] != 2 {
		t.Errorf("%v", called)
	}
}
