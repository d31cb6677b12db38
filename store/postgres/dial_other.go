//go:build !linux

package postgres

import "syscall"

// giveUp does nothing: keep-alives and the limit of a call find a lost server.
func giveUp(string, string, syscall.RawConn) error { return nil }
