package postgresd

import "syscall"

// attributes of a process: signals of the terminal are none of its, and it does
// not outlive a test that is killed.
func attributes(who user) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: who.credential, Pdeathsig: syscall.SIGQUIT}
}
