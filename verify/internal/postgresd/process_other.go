//go:build !linux

package postgresd

import "syscall"

// attributes of a process: signals of the terminal are none of its.
func attributes(who user) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: who.credential}
}
