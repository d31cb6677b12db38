package database

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// meterInterval is how often a meter reads, so that it misses little of a
// process that ends.
const meterInterval = 500 * time.Millisecond

// A meter adds up the CPU time of the processes of a server that work for one
// database: the processes of its clients, and of autovacuum. Processes that work for all
// databases, as for the log, can't be distinguished. It needs Linux, and a server on
// this machine.
type meter struct {
	db   *sql.DB
	end  context.CancelFunc
	done chan struct{}

	mu   sync.Mutex
	last map[process]time.Duration
}

type process struct {
	pid   int
	began string
}

func newMeter(db *sql.DB) *meter {
	ctx, cancel := context.WithCancel(context.Background())
	m := &meter{db: db, end: cancel, done: make(chan struct{}), last: make(map[process]time.Duration)}
	go m.run(ctx)
	return m
}

func (m *meter) run(ctx context.Context) {
	defer close(m.done)
	tick := time.NewTicker(meterInterval)
	defer tick.Stop()
	for {
		_, _ = m.read(ctx) // an error comes again when the result is read
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// read returns the CPU time that the processes have used so far.
func (m *meter) read(ctx context.Context) (sum time.Duration, err error) {
	rows, err := m.db.QueryContext(ctx, query("postgres/backends"))
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	m.mu.Lock()
	defer m.mu.Unlock()
	for rows.Next() {
		var p process
		if err := rows.Scan(&p.pid, &p.began); err != nil {
			return 0, err
		}
		if cpu, ok := cpuOf(p.pid); ok {
			m.last[p] = cpu
		}
	}
	for _, cpu := range m.last {
		sum += cpu
	}
	return sum, rows.Err()
}

func (m *meter) stop() {
	m.end()
	<-m.done
}

// cpuOf returns the CPU time of a process with one thread, if it is one of
// PostgreSQL on this machine.
func cpuOf(pid int) (time.Duration, bool) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	name, err := os.ReadFile(filepath.Join(dir, "comm"))
	if err != nil || !strings.HasPrefix(string(name), "postgres") {
		return 0, false
	}
	text, err := os.ReadFile(filepath.Join(dir, "schedstat")) // nanoseconds on a CPU, waiting for one, slices
	if err != nil {
		return 0, false
	}
	ns, _, _ := strings.Cut(string(text), " ")
	n, err := strconv.ParseInt(ns, 10, 64)
	return time.Duration(n), err == nil
}
