package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal opens a pseudo terminal.
func terminal(t *testing.T) (screen, tty *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = screen.Close() })
	fd := int(screen.Fd()) //nolint:gosec // descriptors are small
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return screen, tty
}

// TestTopRestoresTheTerminal interrupts it after a frame.
func TestTopRestoresTheTerminal(t *testing.T) {
	t.Parallel()
	server, _ := answering(t)
	screen, tty := terminal(t)
	p := prepare(t, []string{"TIMER_SERVER=" + server}, "main", "top", "--interval", "100ms")
	p.Stdout = tty
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	_ = tty.Close() // the process has it
	var text strings.Builder
	for b, sent := make([]byte, 4096), false; ; {
		n, err := screen.Read(b)
		text.Write(b[:n])
		if !sent && strings.Contains(text.String(), "commands/s in") {
			sent = true
			p.signal(t, os.Interrupt)
		}
		if err != nil { // EIO, once no process has the terminal
			break
		}
	}
	if err := p.Wait(); err != nil || !strings.HasSuffix(text.String(), "\x1b[?25h\x1b[?1049l") {
		t.Errorf("%v, and the screen ends with %q", err, text.String()[max(0, text.Len()-40):])
	}
}
