package kafkanode

import "syscall"

func endWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
