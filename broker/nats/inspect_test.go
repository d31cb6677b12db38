package nats_test

import (
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/nats"
)

// TestInspectionSaysSinceWhenAllCommandsAreThere. Dead letters stay for longer, and tell
// nothing about commands.
func TestInspectionSaysSinceWhenAllCommandsAreThere(t *testing.T) {
	t.Parallel()
	e := syncing(t)
	_, js := client(t, e)
	b := ready(t, nats.Options{Server: e})
	stream := streamOf(t, js)
	oldest := func() time.Time {
		found, err := b.Inspect(t.Context(), "timer-service")
		must(t, err)
		return found.Oldest
	}
	if got := oldest(); !got.Equal(stream.CachedInfo().Created) {
		t.Errorf("one that was never used has all since %v, and was created at %v", got, stream.CachedInfo().Created)
	}
	publisher := broker.NewWatermillPublisher(b.Publisher())
	for _, subject := range []string{"svc.acme.dlq", commands, commands} {
		must(t, publisher.Publish(subject, message.NewMessage("", nil)))
	}
	first, err := stream.GetMsg(t.Context(), 2)
	must(t, err)
	if got := oldest(); !got.Equal(first.Time) {
		t.Errorf("it has all since %v, and its first command is of %v", got, first.Time)
	}
	must(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject(commands)))
	if got := oldest(); !got.After(first.Time) {
		t.Errorf("without a command it has all since %v", got)
	}
}
