package nats

import (
	"context"
	"errors"
	"testing"
)

// TestFlightIsAContext asks before and after the end, and the other way round,
// at the end of the flight and of its parent.
func TestFlightIsAContext(t *testing.T) {
	t.Parallel()
	type key struct{}
	for name, asked := range map[string]bool{"asked before the end": true, "asked after the end": false} {
		for by, end := range map[string]func(f *flight, cancel func()){
			"the message":      func(f *flight, _ func()) { f.end() },
			"the subscription": func(_ *flight, cancel func()) { cancel() },
		} {
			t.Run(name+" by "+by, func(t *testing.T) {
				parent, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
				defer cancel()
				f := newFlight(parent)
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

func TestFlightLeavesItsPlaceOnce(t *testing.T) {
	t.Parallel()
	f := newFlight(t.Context())
	f.leave()
	f.leave()
	<-f.left
}
