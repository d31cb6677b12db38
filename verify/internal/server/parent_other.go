//go:build !linux

package server

import "syscall"

func endWithParent(*syscall.SysProcAttr, syscall.Signal) {}
