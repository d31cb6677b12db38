// Package option sets defaults of options, and names arguments that are missing. A value that is
// zero or negative means the default.
package option

import (
	"cmp"
	"fmt"
	"reflect"
)

// Positive returns a value that is more than zero, and otherwise the default.
func Positive[T cmp.Ordered](value, otherwise T) T {
	if value > *new(T) {
		return value
	}
	return otherwise
}

// Func returns a function that is not nil, and otherwise the default.
func Func[F any](function, otherwise F) F {
	if reflect.ValueOf(function).IsNil() {
		return otherwise
	}
	return function
}

// Missing returns an error that names the first argument of a function that is nil, or a nil
// pointer or function. Arguments are names and values in turn.
func Missing(function string, arguments ...any) error {
	for i := 0; i < len(arguments); i += 2 {
		switch v := reflect.ValueOf(arguments[i+1]); v.Kind() {
		case reflect.Invalid:
		case reflect.Pointer, reflect.Func, reflect.Map, reflect.Chan, reflect.Slice, reflect.Interface:
			if !v.IsNil() {
				continue
			}
		default:
			continue
		}
		return fmt.Errorf("%s needs a %v, and got nil", function, arguments[i])
	}
	return nil
}

// Require panics with the error of [Missing].
func Require(function string, arguments ...any) {
	if err := Missing(function, arguments...); err != nil {
		panic(err)
	}
}
