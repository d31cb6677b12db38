package main

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/service"
)

// TestWithTheService runs the timer service with its embedded NATS server, and the
// program next to it.
func TestWithTheService(t *testing.T) {
	t.Parallel()
	cfg, err := config.Load(nil, []string{"TIMER_DB_PATH=" + filepath.Join(t.TempDir(), "timers.db"), "TIMER_NATS_PORT=0", "TIMER_HTTP_ADDR="}, "")
	if err != nil {
		t.Fatal(err)
	}
	served := start(t, func(ctx context.Context, out io.Writer) error {
		return service.Run(ctx, cfg, out, slog.New(slog.DiscardHandler))
	})
	url := strings.TrimSpace(strings.TrimPrefix(served.line("ready"), "ready"))
	program := start(t, func(ctx context.Context, out io.Writer) error { return run(ctx, url, out) })

	asked := strings.TrimPrefix(program.line("asked for "), "asked for ")
	prefix, _, _ := strings.Cut(asked, "1 ")
	for _, n := range []string{"1", "2"} {
		want := prefix + n + " is due, "
		if line := program.line("order-"); !strings.HasPrefix(line, want) || !strings.HasSuffix(line, `data {"order":`+n+`}`) {
			t.Errorf("it printed %q, want %q", line, want)
		}
	}
	for _, p := range []*process{program, served} {
		p.stop()
		if err := <-p.ended; err != nil {
			t.Error(err)
		}
	}
}

// A process is a program that runs in the process of the test.
type process struct {
	lines chan string
	stop  context.CancelFunc
	ended chan error
}

func start(t *testing.T, run func(ctx context.Context, out io.Writer) error) *process {
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	p := &process{lines: make(chan string, 100), stop: stop, ended: make(chan error, 1)}
	in, out := io.Pipe()
	go func() {
		p.ended <- run(ctx, out)
		out.Close()
	}()
	go func() {
		defer close(p.lines)
		for scanner := bufio.NewScanner(in); scanner.Scan(); {
			p.lines <- scanner.Text()
		}
	}()
	t.Cleanup(stop)
	return p
}

// line returns the next line that begins so, "" if there is none.
func (p *process) line(begin string) string {
	for line := range p.lines {
		if strings.HasPrefix(line, begin) {
			return line
		}
	}
	return ""
}
