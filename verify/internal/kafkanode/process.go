package kafkanode

import (
	"os/exec"
	"runtime"
	"syscall"
)

// start starts a process in a group of its own, so that it gets no signals of the terminal.
// The channel is closed when the process has ended. On Linux it is killed when this process
// ends. Its parent is a thread there, so a thread stays.
func start(cmd *exec.Cmd) (ended <-chan struct{}, err error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	endWithParent(cmd.SysProcAttr)
	started, done := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(done)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // its error says that the process was killed
		}
	}()
	err = <-started
	return done, err
}
