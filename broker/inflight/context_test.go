package inflight_test

import (
	"context"
	"errors"
	"testing"

	"github.com/event-service-agent/timer-service/broker/inflight"
)

// TestContextIsAContext asks before and after the end, and the other way round,
// at the end of the flight and of its parent.
func TestContextIsAContext(t *testing.T) {
	t.Parallel()
	type key struct{}
	for name, asked := range map[string]bool{"asked before the end": true, "asked after the end": false} {
		for by, end := range map[string]func(f *inflight.Context, cancel func()){
			"the message":      func(f *inflight.Context, _ func()) { f.End() },
			"the subscription": func(_ *inflight.Context, cancel func()) { cancel() },
		} {
			t.Run(name+" by "+by, func(t *testing.T) {
				parent, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
				defer cancel()
				f := &inflight.Context{Context: parent}
				if f.Value(key{}) != "value" || f.Err() != nil {
					t.Errorf("value %v, error %v", f.Value(key{}), f.Err())
				}
				child, stop := context.WithCancel(context.Background())
				defer stop()
				if asked {
					select {
					case <-f.Done():
						t.Error("done before the end")
					default:
					}
					child, stop = context.WithCancel(f)
					defer stop()
				}
				end(f, cancel)
				<-f.Done()
				if !errors.Is(f.Err(), context.Canceled) {
					t.Errorf("error %v", f.Err())
				}
				if asked {
					<-child.Done()
				}
			})
		}
	}
}
