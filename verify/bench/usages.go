package bench

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/verify/crash"
)

// A usage is the CPU time and memory of a process since its start.
type usage struct {
	cpu     time.Duration
	peakMiB float64 // of memory
}

// ticks is how many units of CPU time Linux counts a second (sysconf
// _SC_CLK_TCK), the same on every machine that Go runs on.
const ticks = 100

// used reads the usage of a process. It needs Linux.
func used(pid int) (usage, error) { return usedOf(pid, 2) }

// usedOf adds up the first fields of CPU time: of the process and the system for it, and of
// its children that have ended. See proc_pid_stat(5).
func usedOf(pid, fields int) (u usage, err error) {
	dir := fmt.Sprintf("/proc/%d/", pid)
	stat, err := os.ReadFile(dir + "stat")
	if err != nil {
		return u, fmt.Errorf("read the CPU time of process %d (this needs Linux): %w", pid, err)
	}
	const first = 11                               // counted from the state
	_, after, _ := strings.Cut(string(stat), ") ") // the name before it may hold anything
	for _, field := range strings.Fields(after)[first : first+fields] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return u, fmt.Errorf("read the CPU time of process %d: %w", pid, err)
		}
		u.cpu += time.Duration(n) * time.Second / ticks
	}
	status, err := os.ReadFile(dir + "status")
	if _, peak, ok := strings.Cut(string(status), "VmHWM:"); ok && err == nil {
		var kib float64
		_, err = fmt.Sscan(peak, &kib)
		u.peakMiB = kib / 1024
	}
	return u, err
}

// usedByAll is used of a process with its children, whose memory does not count.
func usedByAll(pid int) (u usage, err error) {
	if u, err = usedOf(pid, 4); err != nil {
		return u, err
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for child := range strings.FieldsSeq(string(children)) {
		if pid, err := strconv.Atoi(child); err == nil {
			of, _ := used(pid) // it may have ended
			u.cpu += of.cpu
		}
	}
	return u, err
}

// Usages are what all processes have used.
type usages struct {
	service usage // all instances; of memory, the one with the most
	store   usage // the database's server
	broker  usage // zero if the broker was there before
	client  usage // this process
}

// usagesOf returns those of a broker, which may be nil, of a database and of this process.
func usagesOf(broker crash.Server, db *store) (u usages, err error) {
	if broker != nil && broker.PID() != 0 { // of another machine it is not known
		if u.broker, err = used(broker.PID()); err != nil {
			return u, err
		}
	}
	if db != nil && db.server != nil {
		if u.store, err = usedByAll(db.server.PID()); err != nil {
			return u, err
		}
	}
	u.client, err = used(os.Getpid())
	return u, err
}

func (s *system) usages() (usages, error) {
	u, err := usagesOf(s.broker, s.store)
	for _, i := range s.instances {
		one, failed := used(i.PID())
		if failed != nil {
			return u, failed
		}
		u.service.cpu += one.cpu
		u.service.peakMiB = max(u.service.peakMiB, one.peakMiB)
	}
	return u, err
}

// since returns the CPU time for each of n timers since an earlier reading.
func (u usages) since(earlier usages, n int) *CPU {
	return &CPU{
		Service: each(n, u.service.cpu-earlier.service.cpu),
		Store:   each(n, u.store.cpu-earlier.store.cpu),
		Broker:  each(n, u.broker.cpu-earlier.broker.cpu),
		Client:  each(n, u.client.cpu-earlier.client.cpu),
	}
}

// restLimit is the longest wait for the service to come to rest. Its housekeeping
// may go on, such as forgetting timers.
const restLimit = 2 * time.Second

// rest waits until the service has nothing left to do, and returns all that has been
// used: the last events are deleted from its outbox after they came.
func (s *system) rest(ctx context.Context) (usages, error) {
	before, err := s.usages()
	for idle, began := 0, time.Now(); err == nil && idle < 3 && time.Since(began) < restLimit; {
		if !pause.For(ctx, 100*time.Millisecond) {
			return before, ctx.Err()
		}
		var after usages
		after, err = s.usages()
		if idle++; after.service.cpu > before.service.cpu {
			idle = 0
		}
		before = after
	}
	return before, err
}
