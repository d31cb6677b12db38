//go:build !(linux || darwin || freebsd)

package nats

import "errors"

// freeBytes returns an error: nobody asked this system yet.
func freeBytes(string) (int64, error) { return 0, errors.ErrUnsupported }
