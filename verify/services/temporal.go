//go:build temporal

package services

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/event-service-agent/timer-service/internal/freeport"
	"github.com/event-service-agent/timer-service/verify/services/judge"
)

// temporalWorkflows are workflows of Temporal with a start delay. To move one is to start it
// anew, which terminates the one that waits.
type temporalWorkflows struct{ client client.Client }

// temporalQueue is the task queue of the worker.
const temporalQueue = "timers"

var errNoTemporal = errors.New("the program temporal, which has the development server, is not on the path")

// openTemporal starts the development server, which keeps its data in a file.
func openTemporal(ctx context.Context, w *world) (service, error) {
	program, err := exec.LookPath("temporal")
	if err != nil {
		return nil, errNoTemporal
	}
	port, err := freeport.Find(ctx)
	if err != nil {
		return nil, err
	}
	server := &child{name: "Temporal", path: program, dir: w.dir, logs: w.logs, args: []string{
		"server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", strconv.Itoa(port),
		"--db-filename", filepath.Join(w.dir, "temporal.db"), "--log-level", "error",
	}, ready: func(ctx context.Context) error { return temporalReady(ctx, port) }}
	w.onClose(server.kill)
	if err := server.start(ctx); err != nil {
		return nil, err
	}
	w.harm.processes, w.harm.servers = append(w.harm.processes, server.part()), append(w.harm.servers, server.part())
	toClient, err := w.through("client to Temporal", freeport.Address(port))
	if err != nil {
		return nil, err
	}
	toWorker, err := w.through("worker to Temporal", freeport.Address(port))
	if err != nil {
		return nil, err
	}
	c, err := temporalDial(toClient)
	if err != nil {
		return nil, err
	}
	w.onClose(func() error { c.Close(); return nil })
	worked, err := w.worker("temporal", toWorker)
	if err != nil {
		return nil, err
	}
	w.onClose(worked.kill)
	w.harm.processes = append(w.harm.processes, worked.part())
	return &temporalWorkflows{c}, worked.start(ctx)
}

// temporalReady waits until the server has its namespace.
func temporalReady(ctx context.Context, port int) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := listens(port)(ctx); err != nil {
		return err
	}
	c, err := temporalDial(freeport.Address(port))
	if err != nil {
		return err
	}
	defer c.Close()
	for {
		_, err := c.DescribeTaskQueue(ctx, temporalQueue, enums.TASK_QUEUE_TYPE_WORKFLOW)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(tryPause):
		case <-ctx.Done():
			return fmt.Errorf("wait for Temporal: %w", err)
		}
	}
}

// temporalDial returns a client that connects with its first request, and whose keepalive finds
// a half-open connection.
func temporalDial(address string) (client.Client, error) {
	return client.NewLazyClient(client.Options{
		HostPort: address, Logger: silent{},
		ConnectionOptions: client.ConnectionOptions{KeepAliveTime: 5 * time.Second, KeepAliveTimeout: 2 * time.Second},
	})
}

// silent logs nothing.
type silent struct{}

func (silent) Debug(string, ...any) {}
func (silent) Info(string, ...any)  {}
func (silent) Warn(string, ...any)  {}
func (silent) Error(string, ...any) {}

var _ log.Logger = silent{}

func (s *temporalWorkflows) do(ctx context.Context, c command) (answer, error) {
	over := refused
	if c.again {
		over = inForce // perhaps by the command that was sent before
	}
	if c.do == judge.Cancel {
		err := s.client.TerminateWorkflow(ctx, c.key, "", "canceled")
		if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
			return over, nil
		}
		return inForce, err
	}
	options := client.StartWorkflowOptions{
		ID: c.key, TaskQueue: temporalQueue, StartDelay: time.Until(c.due) + time.Millisecond, WorkflowExecutionErrorWhenAlreadyStarted: true,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING, WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
	}
	if c.do == judge.Move { // what has run is not started again
		options.WorkflowIDConflictPolicy = enums.WORKFLOW_ID_CONFLICT_POLICY_TERMINATE_EXISTING
		options.WorkflowIDReusePolicy = enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY
	} else {
		over = inForce
	}
	_, err := s.client.ExecuteWorkflow(ctx, options, timerWorkflow, c.key, c.op)
	if _, started := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); started {
		return over, nil
	}
	return inForce, err
}

// timerWorkflow is what runs when a timer is due.
func timerWorkflow(ctx workflow.Context, key string, op int) error {
	return workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: 5 * time.Second}), timerActivity, key, op).Get(ctx, nil)
}

// timerActivity reports the event under the id of the run.
func timerActivity(ctx context.Context, key string, op int) error {
	report(key, op, activity.GetInfo(ctx).WorkflowExecution.RunID)
	return nil
}

// workTemporal works until it is told to end.
func workTemporal(ctx context.Context, at string) error {
	c, err := temporalDial(at)
	if err != nil {
		return err
	}
	defer c.Close()
	w := worker.New(c, temporalQueue, worker.Options{
		MaxConcurrentWorkflowTaskPollers: 8, MaxConcurrentActivityTaskPollers: 8,
	})
	w.RegisterWorkflow(timerWorkflow)
	w.RegisterActivity(timerActivity)
	if err := w.Start(); err != nil {
		return err
	}
	defer w.Stop()
	fmt.Fprintln(os.Stdout, "ready")
	<-ctx.Done()
	return nil
}
