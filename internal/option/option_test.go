package option_test

import (
	"testing"

	"github.com/event-service-agent/timer-service/internal/option"
)

func TestMissingNamesTheFirstThatIsNil(t *testing.T) {
	t.Parallel()
	var pointer *int
	var function func()
	for name, tt := range map[string]struct {
		arguments []any
		want      string
	}{
		"nothing":        {nil, ""},
		"all are there":  {[]any{"number", 0, "pointer", new(int), "function", func() {}, "value", struct{}{}}, ""},
		"an untyped nil": {[]any{"number", 1, "store", nil, "clock", nil}, "x.New needs a store, and got nil"},
		"a nil pointer":  {[]any{"store", pointer}, "x.New needs a store, and got nil"},
		"a nil function": {[]any{"function", function}, "x.New needs a function, and got nil"},
	} {
		got := ""
		if err := option.Missing("x.New", tt.arguments...); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestAFunctionThatIsNilIsTheDefault(t *testing.T) {
	t.Parallel()
	one, two := func() int { return 1 }, func() int { return 2 }
	if got, otherwise := option.Func(one, two)(), option.Func(nil, two)(); got != 1 || otherwise != 2 {
		t.Errorf("%d and %d, want the function and the default", got, otherwise)
	}
}
