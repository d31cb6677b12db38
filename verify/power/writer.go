//go:build linux

package power

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Environment variables that make a process a writer.
const (
	writerFileEnv = "POWER_WRITER_FILE"
	writerSyncEnv = "POWER_WRITER_SYNC"
)

const (
	recordBytes = 512
	recordPause = time.Millisecond // so that one that does not sync does not fill the disk
)

// IsWriter reports whether this process was started to be the writer of a
// control. Then main must call [ServeWriter] and end.
func IsWriter() bool { return os.Getenv(writerFileEnv) != "" }

// ServeWriter appends records to a file until it is killed. The number of each
// goes to out once the record is written and, unless disabled, synced.
func ServeWriter(out io.Writer) error {
	file, err := os.OpenFile(os.Getenv(writerFileEnv), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	syncs := os.Getenv(writerSyncEnv) == "yes"
	tick := time.NewTicker(recordPause)
	defer tick.Stop()
	for n := 1; ; n++ {
		if _, err := file.Write(record(n)); err != nil {
			return err
		}
		if syncs {
			if err := unix.Fdatasync(int(file.Fd())); err != nil {
				return fmt.Errorf("sync record %d: %w", n, err)
			}
		}
		if _, err := fmt.Fprintln(out, n); err != nil {
			return err
		}
		<-tick.C
	}
}

// record returns record n.
func record(n int) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "%015d\n", n), recordBytes/16)
}

// intact returns how many records a file begins with that are as they were
// written; none if there is no file.
func intact(name string) (n int, err error) {
	text, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	for len(text) >= recordBytes && bytes.Equal(text[:recordBytes], record(n+1)) {
		text = text[recordBytes:]
		n++
	}
	return n, nil
}

// A writer is a process that runs [ServeWriter].
type writer struct {
	cmd   *exec.Cmd
	acked atomic.Int64  // the last record that it acked
	first chan struct{} // closed with the first ack
	ended chan struct{} // closed when it has ended, and acked is final
	err   error         // how it ended; set before ended is closed
}

// startWriter starts a writer of a file, of which it is the first.
func startWriter(ctx context.Context, file string, syncs bool) (*writer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the program to run as writer: %w", err)
	}
	answer := "no"
	if syncs {
		answer = "yes"
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), writerFileEnv+"="+file, writerSyncEnv+"="+answer)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = ownGroup()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the writer: %w", err)
	}
	w := &writer{cmd: cmd, first: make(chan struct{}), ended: make(chan struct{})}
	go w.listen(stdout)
	return w, nil
}

// listen counts acks until the writer has ended.
func (w *writer) listen(out io.Reader) {
	defer close(w.ended)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		n, err := strconv.ParseInt(lines.Text(), 10, 64)
		if err != nil || n != w.acked.Add(1) {
			break // no writer: Wait returns the error
		}
		if n == 1 {
			close(w.first)
		}
	}
	w.err = w.cmd.Wait()
}

// kill ends the writer.
func (w *writer) kill() error {
	if err := w.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill the writer: %w", err)
	}
	<-w.ended
	return nil
}

// ownGroup keeps signals of the terminal away from a process: who started it
// ends it.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
