package kafka_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/event-service-agent/timer-service/broker/kafka"
	"github.com/event-service-agent/timer-service/internal/logbuf"
)

// asked calls a function with each question about metadata that was sent.
type asked func()

func (a asked) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	if key == int16(kmsg.Metadata) {
		a()
	}
}

// TestServerThatPausesIsNotAway leaves the first ping of the driver without an answer until
// the second one comes.
func TestServerThatPausesIsNotAway(t *testing.T) {
	t.Parallel()
	c, r, log := serve(t), routing(), new(logbuf.Buffer)
	var (
		held     = make(chan struct{}) // closed when a question is not answered
		again    = make(chan struct{}) // closed when there is another
		hold     = sync.OnceFunc(func() { close(held) })
		answer   = sync.OnceFunc(func() { close(again) })
		question = asked(func() {
			select {
			case <-held:
				answer()
			default:
			}
		})
	)
	b := kafka.New(kafka.Options{URL: c.url(), Routing: r, Connect: []kgo.Opt{kgo.WithHooks(question)}}, slog.New(slog.NewTextHandler(log, nil)))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	until(t, "a broker that is ready", func() bool { return b.Ready(t.Context()) == nil })

	c.ControlKey(int16(kmsg.Metadata), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.DropControl()
		c.SleepControl(func() {
			hold()
			<-again
		})
		return nil, nil, false
	})
	over, end := context.WithCancel(t.Context())
	end()
	_ = b.Ready(over) // has the server checked
	<-again
	publish(t, b, r.EventsOf("acme"), "after")
	until(t, "a broker that is ready", func() bool { return b.Ready(t.Context()) == nil })
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if strings.Contains(log.String(), "not connected") {
		t.Errorf("a pause was taken for an outage:\n%s", log)
	}
}
