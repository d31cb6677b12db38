//go:build !linux

package kafkanode

import "syscall"

func endWithParent(*syscall.SysProcAttr) {}
