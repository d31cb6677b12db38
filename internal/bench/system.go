package bench

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/event-service-agent/timer-service/app/service"
	port "github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/internal/crash"
)

// A system is a broker, a service, and a client of the two.
type system struct {
	opt    Options
	dir    string
	config config.Config
	broker crash.Server // nil if it is embedded, or was running already
	cmd    *exec.Cmd
	log    bytes.Buffer // what the service writes
	ready  time.Duration
	ended  chan struct{} // closed when the service has ended
	err    error         // how; set before ended is closed

	client port.Broker
	db     *sql.DB        // of the service, to look at
	close  []func() error // in reverse
}

// open starts everything. The caller closes the system, also after an error.
func open(ctx context.Context, opt Options) (*system, error) {
	s := &system{opt: opt, ended: make(chan struct{})}
	if err := opt.check(); err != nil {
		return s, err
	}
	var err error
	if s.dir, err = os.MkdirTemp(opt.Dir, "timer-bench-"); err != nil {
		return s, err
	}
	s.close = append(s.close, func() error { return os.RemoveAll(s.dir) })
	url := opt.BrokerURL
	if url == "" && !opt.Embedded {
		if s.broker, url, err = startBroker(ctx, s.dir, opt); err != nil {
			return s, err
		}
		s.close = append(s.close, s.broker.Stop)
	}
	settings := map[string]string{
		"TIMER_DB_PATH": filepath.Join(s.dir, "timers.db"), "TIMER_BROKER": string(opt.Broker), "TIMER_BROKER_URL": url,
		"TIMER_DURABILITY": string(config.Strict), "TIMER_NATS_PORT": "0",
	}
	if opt.Relaxed {
		settings["TIMER_DURABILITY"] = string(config.Relaxed)
	}
	for _, set := range opt.Settings {
		name, value, _ := strings.Cut(set, "=")
		settings[name] = value
	}
	environ := make([]string, 0, len(settings))
	for name, value := range settings {
		environ = append(environ, name+"="+value)
	}
	if s.config, err = config.Load(nil, environ, ""); err != nil {
		return s, err
	}
	if err := s.fill(ctx); err != nil {
		return s, err
	}
	if err := s.serve(ctx, environ); err != nil {
		return s, err
	}
	return s, s.connect(ctx)
}

// serve starts the service and waits until it takes commands.
func (s *system) serve(ctx context.Context, environ []string) error {
	bin := s.opt.Bin
	if bin == "" {
		var err error
		if bin, err = crash.Build(ctx, s.dir); err != nil {
			return err
		}
	}
	s.cmd = exec.CommandContext(ctx, bin, "serve")
	s.cmd.Env = append(crash.Environ(), environ...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	s.cmd.Stderr = &s.log
	ready := make(chan struct{})
	s.cmd.Stdout = crash.Watch(io.Discard, "ready", func() { close(ready) })
	began := time.Now()
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("start the service: %w", err)
	}
	go func() {
		s.err = s.cmd.Wait()
		close(s.ended)
	}()
	s.close = append(s.close, s.stop)
	select {
	case <-ready:
		s.ready = time.Since(began)
		return nil
	case <-s.ended:
		return fmt.Errorf("the service ended: %w\n%s", s.err, s.log.String())
	case <-time.After(time.Minute):
		return errors.New("the service is not ready after a minute")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stop ends the service, which must be cleanly.
func (s *system) stop() error {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // an error means that it has ended, which is told below
	select {
	case <-s.ended:
	case <-time.After(time.Minute):
		_ = s.cmd.Process.Kill()
		<-s.ended
	}
	if s.err != nil {
		return fmt.Errorf("the service: %w\n%s", s.err, s.log.String())
	}
	return nil
}

// connect makes the client, as producers and consumers have it, and opens the
// database of the service, to look at.
func (s *system) connect(ctx context.Context) error {
	client, _, err := service.Client(s.config, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- client.Run(running) }()
	s.close = append(s.close, func() error { cancel(); return <-done })
	s.client = client
	for client.Ready(ctx) != nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	if s.db, err = sql.Open("sqlite", "file:"+s.config.DBPath+"?mode=ro"); err != nil {
		return fmt.Errorf("look at the database: %w", err)
	}
	s.close = append(s.close, s.db.Close)
	return nil
}

// accepted waits until the service has committed so many timers, beside those
// that were pending, and returns when that was. It looks at the number of the
// last row, which costs nothing.
func (s *system) accepted(ctx context.Context, timers int) (time.Time, error) {
	for {
		var last int
		if err := s.db.QueryRowContext(ctx, "SELECT ifnull(max(rowid), 0) FROM timer_schedules").Scan(&last); err != nil {
			return time.Time{}, fmt.Errorf("look at the database: %w", err)
		}
		if last >= s.opt.Pending+timers {
			return time.Now(), nil
		}
		select {
		case <-time.After(2 * time.Millisecond):
		case <-s.ended:
			return time.Time{}, fmt.Errorf("the service ended: %w\n%s", s.err, s.log.String())
		case <-ctx.Done():
			return time.Time{}, ctx.Err()
		}
	}
}

// shut ends everything, the last first.
func (s *system) shut() (err error) {
	for i := len(s.close) - 1; i >= 0; i-- {
		err = errors.Join(err, s.close[i]())
	}
	return err
}

// startBroker starts a broker that keeps its data in dir, and returns where
// clients find it.
func startBroker(ctx context.Context, dir string, opt Options) (crash.Server, string, error) {
	if opt.Broker != crash.NATS {
		return crash.StartServer(ctx, opt.Broker, dir)
	}
	port, err := crash.FreePort(ctx)
	if err != nil {
		return nil, "", err
	}
	b, err := crash.StartBroker(ctx, crash.BrokerOptions{Dir: dir, Port: port, SyncAll: opt.SyncAll})
	return b, fmt.Sprintf("nats://127.0.0.1:%d", port), err
}
