package handlers_test

import (
	"testing"
	"testing/synctest"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/envelope"
)

func TestNothingIsAckedBeforeTheCommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, commit := newHarness(), make(chan struct{})
		d.apply = func(any) error {
			<-commit
			return nil
		}
		d.run(t, routing)
		m := message.NewMessage("original-id", envelope.Schedule(command))
		d.in <- m
		synctest.Wait()
		select {
		case <-m.Acked():
			t.Error("acked before the commit")
		case <-m.Nacked():
			t.Error("nacked before the commit")
		default:
		}
		close(commit)
		<-m.Acked()
	})
}
