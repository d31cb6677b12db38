//go:build !(linux || darwin || freebsd)

package embedded

import "errors"

// freeBytes returns an error: this system is not supported.
func freeBytes(string) (int64, error) { return 0, errors.ErrUnsupported }
