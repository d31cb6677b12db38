package poison_test

import (
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// A yardstick measures how slow this machine is at its worst, which others may
// be using too: again and again it does what the service does for a timer, a
// write that is synced and a message that the broker stores.
type yardstick struct {
	stop  chan struct{}
	done  sync.WaitGroup
	worst time.Duration
}

// measure begins to measure.
func (w *world) measure() *yardstick {
	_, err := w.js.CreateStream(w.Context(), jetstream.StreamConfig{Name: "yardstick", Subjects: []string{"yardstick"}, MaxMsgs: 10})
	if err != nil {
		w.Fatal(err)
	}
	file, err := os.Create(filepath.Join(w.TempDir(), "yardstick"))
	if err != nil {
		w.Fatal(err)
	}
	y := &yardstick{stop: make(chan struct{})}
	y.done.Go(func() {
		defer file.Close()
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			began := time.Now()
			_, err := file.WriteAt(make([]byte, 4096), 0)
			if err == nil {
				err = file.Sync()
			}
			if err == nil {
				_, err = w.js.Publish(w.Context(), "yardstick", nil)
			}
			if err != nil {
				w.Error(err)
				return
			}
			y.worst = max(y.worst, time.Since(began))
			select {
			case <-tick.C:
			case <-y.stop:
				return
			}
		}
	})
	return y
}

// read ends the measurement and returns the longest time that one took.
func (y *yardstick) read() time.Duration {
	close(y.stop)
	y.done.Wait()
	return y.worst
}
