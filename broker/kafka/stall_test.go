package kafka_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/event-service-agent/timer-service/broker/brokertest"
	"github.com/event-service-agent/timer-service/broker/kafka"
	"github.com/event-service-agent/timer-service/internal/logbuf"
)

// TestServerThatPausesIsNotAway has a server answer nothing for five seconds.
func TestServerThatPausesIsNotAway(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster, opt kafka.Options) {
		log := new(logbuf.Buffer)
		b := kafka.New(opt, slog.New(slog.NewTextHandler(log, nil)))
		stop := brokertest.Start(t, b)
		defer stop()
		brokertest.AwaitReady(t, b)
		paused := false
		c.ControlKey(int16(kmsg.Metadata), func(kmsg.Request) (kmsg.Response, error, bool) {
			c.DropControl()
			paused = true
			time.Sleep(5 * time.Second)
			return nil, nil, false
		})
		time.Sleep(time.Minute)
		synctest.Wait()
		publish(t, b, "timer.commands", "after")
		if strings.Contains(log.String(), "not connected") || !paused {
			t.Errorf("paused %v, and taken for an outage:\n%s", paused, log)
		}
	})
}
