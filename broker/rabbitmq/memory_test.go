package rabbitmq

import (
	"bytes"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	amqp "github.com/rabbitmq/amqp091-go"
)

func TestHeadersCountAsMemory(t *testing.T) {
	t.Parallel()
	const large = 100_000
	text := strings.Repeat("x", large)
	for name, value := range map[string]any{
		"text": text, "bytes": []byte(text), "table": amqp.Table{"a": text}, "name": amqp.Table{text: nil}, "list": []any{int32(1), text},
	} {
		d := &delivery{in: amqp.Delivery{Headers: amqp.Table{name: value}, Body: []byte(text)}}
		if got := d.Bytes(); got < 2*large || got > 3*large {
			t.Errorf("%s: %d bytes, want about %d", name, got, 2*large)
		}
	}
}

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
