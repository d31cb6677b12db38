//go:build linux || darwin || freebsd

package service

import "golang.org/x/sys/unix"

// openFiles returns how many files the process may open, connections among them; 0 if that is
// not known.
func openFiles() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return int(min(uint64(limit.Cur), 1<<20)) //nolint:gosec,unconvert // bounded; signed on FreeBSD
}
