package inflight_test

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/event-service-agent/timer-service/broker/inflight"
)

func TestEndWaitsForItsWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term := inflight.NewTerm()
		if !term.Begin() {
			t.Fatal("nothing can be begun")
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			term.End()
		}()
		<-term.Context().Done()
		synctest.Wait()
		select {
		case <-ended:
			t.Error("End did not wait")
		default:
		}
		var others sync.WaitGroup
		if term.Begin() || term.Add(&others) || inflight.NewSubscriptions(term).Join() {
			t.Error("something was begun after the end")
		}
		term.Done()
		<-ended
		term.End() // again
	})
}

func TestCloseWaitsForItsSubscriptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term := inflight.NewTerm()
		subs, others := inflight.NewSubscriptions(term), inflight.NewSubscriptions(term)
		if !subs.Join() || !others.Join() {
			t.Fatal("nothing can be subscribed to")
		}
		ctx, stop := subs.Until(t.Context())
		defer stop()
		other, stopOther := others.Until(t.Context())
		defer stopOther()
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			_ = subs.Close()
		}()
		<-ctx.Done()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("Close did not wait")
		default:
		}
		if subs.Join() {
			t.Error("subscribed after Close")
		}
		subs.Left()
		<-closed
		if err := subs.Close(); err != nil {
			t.Errorf("Close again: %v", err)
		}
		if other.Err() != nil {
			t.Error("Close of one ended another")
		}
		go term.End()
		<-other.Done()
		others.Left()
		term.Done()
		term.Done()
	})
}
