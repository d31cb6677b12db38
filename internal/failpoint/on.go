//go:build failpoint

package failpoint

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// A point is where the process dies.
type point struct {
	step     string
	passage  int64 // from 1
	passages atomic.Int64
}

// armed reads the environment once. It returns nil if there is no point, and
// panics if it can't be read: a test that kills nothing must not look like one
// that does.
var armed = sync.OnceValue(func() *point {
	text := os.Getenv("FAILPOINT")
	if text == "" {
		return nil
	}
	step, number, _ := strings.Cut(text, ":")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 1 || step == "" {
		panic(fmt.Sprintf("FAILPOINT is %q, which is not like acked:3", text))
	}
	return &point{step: step, passage: n}
})

// Here kills the process, as SIGKILL does, if this is the passage of the step
// that FAILPOINT names. Just before it says so on stderr.
func Here(step string) {
	p := armed()
	if p == nil || p.step != step || p.passages.Add(1) != p.passage {
		return
	}
	fmt.Fprintf(os.Stderr, "failpoint %s\n", step)
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // not a step further
}
