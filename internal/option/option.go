// Package option completes options of which less than nothing means the default, too.
package option

import "cmp"

// Positive returns a value that is more than zero, else the default.
func Positive[T cmp.Ordered](value, otherwise T) T {
	if value > *new(T) {
		return value
	}
	return otherwise
}
