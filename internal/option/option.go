// Package option sets defaults of options. A value that is zero or negative means the default.
package option

import "cmp"

// Positive returns a value that is more than zero, and otherwise the default.
func Positive[T cmp.Ordered](value, otherwise T) T {
	if value > *new(T) {
		return value
	}
	return otherwise
}
