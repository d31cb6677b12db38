package rabbitmq

import (
	"bytes"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// TestHeadersWaitInTheNetwork sends headers without bodies until the filter reads no more.
func TestHeadersWaitInTheNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deliver := frame(1, []byte{0, 60, 0, 60})
		header := frame(frameHeader, append(append(make([]byte, 12), 0x80, 0), make([]byte, 100_000)...))
		const n = 2 * maxHeld / 100_000
		v := newFlow()
		s := newFilter(bytes.NewReader(bytes.Repeat(slices.Concat(deliver, header), n)), v)
		var out atomic.Int64
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			p := make([]byte, 64<<10)
			for {
				some, err := s.Read(p)
				out.Add(int64(some))
				if err != nil {
					return
				}
			}
		}()
		synctest.Wait()
		if got := out.Load(); got < maxHeld-maxHeld/4 || got > maxHeld+maxHeld/4 {
			t.Errorf("%d bytes were read, want about %d", got, maxHeld)
		}
		for len(v.counted) > 0 { // nothing is added while all wait
			v.release()
			synctest.Wait()
		}
		<-ended
		if !v.bytes.TryAcquire(maxHeld) {
			t.Error("bytes are held when all is handled")
		}
	})
}
