// Package machine reports what processes on this machine have used. It needs Linux.
package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A Usage is what a process has used since its start, as Linux reports.
type Usage struct {
	CPU     time.Duration
	PeakMiB float64 // of memory
}

// ticks is how many units of CPU time Linux counts a second (sysconf
// _SC_CLK_TCK), the same on every machine that Go runs on.
const ticks = 100

// Used reads the usage of a process.
func Used(pid int) (u Usage, err error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return u, fmt.Errorf("read the CPU time of process %d (this needs Linux): %w", pid, err)
	}
	_, after, _ := strings.Cut(string(stat), ") ") // the name before it may hold anything
	fields := strings.Fields(after)
	const userTime, systemTime = 11, 12 // counted from the state, see proc_pid_stat(5)
	for _, i := range []int{userTime, systemTime} {
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return u, fmt.Errorf("read the CPU time of process %d: %w", pid, err)
		}
		u.CPU += time.Duration(n) * time.Second / ticks
	}
	kib, err := number(filepath.Join(dir, "status"), "VmHWM:")
	u.PeakMiB = float64(kib) / 1024
	return u, err
}

// number returns the number behind a name in a file of lines.
func number(file, name string) (int64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == name {
			return strconv.ParseInt(fields[1], 10, 64)
		}
	}
	return 0, fmt.Errorf("%s has no %s", file, name)
}
