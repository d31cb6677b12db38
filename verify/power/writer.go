//go:build linux

package power

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"

	"github.com/event-service-agent/timer-service/verify/crash"
)

// Environment variables that make a process a writer.
const (
	writerFileEnv = "POWER_WRITER_FILE"
	writerSyncEnv = "POWER_WRITER_SYNC"
)

const (
	recordBytes = 512
	writerLimit = time.Minute      // until the first ack
	recordPause = time.Millisecond // so that one that does not sync does not fill the disk
)

// WriterMain is the writer of a control if this process was started to be one, and does not
// return then.
func WriterMain() {
	if os.Getenv(writerFileEnv) != "" {
		fmt.Fprintln(os.Stderr, serveWriter(os.Stdout))
		os.Exit(1) //nolint:forbidigo // main calls this
	}
}

// serveWriter appends records to a file until it is killed. A line goes to out for each
// once the record is written and, unless disabled, synced.
func serveWriter(out io.Writer) error {
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
		if _, err := fmt.Fprintln(out, "ready", n); err != nil {
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

// startWriter starts a writer of a file, of which it is the first, and waits until it has
// acked a record. Each of its lines acks one.
func startWriter(ctx context.Context, file, syncs string) (*crash.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the program to run as writer: %w", err)
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), writerFileEnv+"="+file, writerSyncEnv+"="+syncs)
	w, err := crash.StartCommand(cmd, io.Discard)
	if err != nil {
		return nil, err
	}
	if err := w.Await(ctx, writerLimit); err != nil {
		return nil, errors.Join(err, w.Kill())
	}
	return w, nil
}
