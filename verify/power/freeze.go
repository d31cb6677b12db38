//go:build linux

package power

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

const (
	stopTimeout = 20 * time.Second // for a thread that waits for the disk
	stopPause   = time.Millisecond
)

// holders returns the processes that have something of dir open, or work in it.
func holders(dir string) (pids []int, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list the processes: %w", err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue // no process
		}
		if holds(pid, dir) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// holds reports whether a process has something of dir open. One that has ended
// meanwhile has not.
func holds(pid int, dir string) bool {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	links := []string{filepath.Join(proc, "cwd"), filepath.Join(proc, "root"), filepath.Join(proc, "exe")}
	files, _ := os.ReadDir(filepath.Join(proc, "fd"))
	for _, f := range files {
		links = append(links, filepath.Join(proc, "fd", f.Name()))
	}
	return slices.ContainsFunc(links, func(link string) bool {
		path, err := os.Readlink(link)
		return err == nil && isBelow(path, dir)
	})
}

// freeze stops processes and returns when each of their threads is seen stopped:
// from then on none of them does anything.
func freeze(ctx context.Context, pids []int) error {
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			return fmt.Errorf("stop process %d: %w", pid, err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	tick := time.NewTicker(stopPause)
	defer tick.Stop()
	for _, pid := range pids {
		for {
			stopped, err := isStopped(pid)
			if err != nil {
				return err
			}
			if stopped {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("stop process %d: %w", pid, ctx.Err())
			case <-tick.C:
			}
		}
	}
	return nil
}

// isStopped reports whether every thread of a process is stopped, or has ended.
func isStopped(pid int) (bool, error) {
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(stats) == 0 {
		return false, errors.Join(fmt.Errorf("process %d has ended", pid), err)
	}
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // the thread has ended
		}
		if err != nil {
			return false, fmt.Errorf("read the state of process %d: %w", pid, err)
		}
		switch state(text) {
		case 'T', 'Z', 'X':
		default:
			return false, nil
		}
	}
	return true, nil
}

// state returns the state letter of a line of /proc/PID/stat:
//
//	42 (a name, with anything in it) S 1 …
func state(stat []byte) byte {
	_, after, found := bytes.Cut(stat[max(bytes.LastIndexByte(stat, ')'), 0):], []byte(") "))
	if !found || len(after) == 0 {
		return 0
	}
	return after[0]
}
