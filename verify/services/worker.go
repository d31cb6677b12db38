package services

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
)

// Environment variables that make a process the worker of a service, and say where it is.
const (
	workerEnv   = "SERVICES_WORKER"
	workerAtEnv = "SERVICES_WORKER_AT"
)

// workers are the services whose work runs in a process of the client, by the name in
// [workerEnv]: that process is one that faults are done to.
var workers = map[string]func(ctx context.Context, at string) error{"river": workRiver, "temporal": workTemporal}

// WorkerMain works for a service if this process was started for it, and does not return then.
// Each program that calls [Run] calls it first.
func WorkerMain() {
	work := workers[os.Getenv(workerEnv)]
	if work == nil {
		return
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	if err := work(ctx, os.Getenv(workerAtEnv)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:forbidigo // main calls this
	}
	os.Exit(0) //nolint:forbidigo // main calls this
}

// report tells the recorder of an event that came to a worker, before its work counts as done.
func report(key string, op int, id string) {
	fmt.Fprintln(os.Stdout, "seen", key, op, id)
}

// worker returns the process that works for a service at an address.
func (w *world) worker(service, at string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return &child{
		name: service + "-worker", path: self, dir: w.dir, logs: w.logs, env: []string{workerEnv + "=" + service, workerAtEnv + "=" + at},
		line: func(text string) {
			fields := strings.Fields(text)
			if len(fields) != 4 || fields[0] != "seen" {
				return
			}
			if op, err := strconv.Atoi(fields[2]); err == nil {
				w.rec.noteSeen(fields[1], op, fields[3])
			}
		},
	}, nil
}
