package services

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/event-service-agent/timer-service/internal/freeport"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/internal/proxy"
	"github.com/event-service-agent/timer-service/verify/crash"
)

// startLimit is how long a process may take until it is ready.
const startLimit = 2 * time.Minute

// A child is a program that is started again after each kill.
type child struct {
	name    string
	path    string
	args    []string
	env     []string
	dir     string                      // it works there
	logs    string                      // folder for what it prints
	line    func(string)                // called with each line that it prints; may be nil
	ready   func(context.Context) error // waits until it takes connections; nil: until it prints "ready"
	process *crash.Process
}

// part returns the child as what faults are done to.
func (c *child) part() part {
	return part{c.name, c.start, c.kill, func() int { return c.process.PID() }}
}

// start starts the child and waits until it is ready.
func (c *child) start(ctx context.Context) error {
	log, err := os.OpenFile(filepath.Join(c.logs, c.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, c.path, c.args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = c.dir, append(crash.Environ(), c.env...), time.Second
	out, in := io.Pipe()
	if c.process, err = crash.StartCommand(cmd, io.MultiWriter(log, in)); err != nil {
		return err
	}
	go func(p *crash.Process) {
		<-p.Ended
		_, _ = in.Close(), log.Close() // nothing writes any more
	}(c.process)
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if c.line != nil {
				c.line(lines.Text())
			}
		}
	}()
	if c.ready == nil {
		return c.process.Await(ctx, startLimit)
	}
	return c.ready(ctx)
}

func (c *child) kill() error {
	if c.process == nil {
		return nil
	}
	return c.process.Kill()
}

// listens returns a function that waits until something listens on a port.
func listens(port int) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, startLimit)
		defer cancel()
		for {
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", freeport.Address(port))
			if err == nil {
				return conn.Close()
			}
			if !pause.For(ctx, 20*time.Millisecond) {
				return fmt.Errorf("nothing listens on port %d: %w", port, err)
			}
		}
	}
}

// through returns a proxy to an address, and the address of the proxy.
func (w *world) through(name, address string) (string, error) {
	p := proxy.New(proxy.TCP(address))
	at, err := p.Listen()
	if err != nil {
		return "", err
	}
	w.onClose(p.Close)
	w.harm.connections = append(w.harm.connections, connection{name, []*proxy.Proxy{p}})
	return at, nil
}
