package app_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/timer"
)

// TestMiddlewareThatFailsHoldsUpNoStart has a host's middleware fail for the messages of a tenant
// while a start reads one of them, which is handled when the middleware works.
func TestMiddlewareThatFailsHoldsUpNoStart(t *testing.T) {
	for name, panics := range map[string]bool{"an error": false, "a panic": true} {
		t.Run(name, func(t *testing.T) {
			onServer(t, func(b *server) {
				var broken atomic.Bool
				broken.Store(true)
				fails := failsFor("acme", broken.Load)
				opt := app.Options{Middleware: []message.HandlerMiddleware{func(next message.HandlerFunc) message.HandlerFunc {
					return func(m *message.Message) ([]*message.Message, error) {
						if panics && broken.Load() && strings.Contains(string(m.Payload), `"acme"`) {
							panic("a key is missing")
						}
						return fails(next)(m)
					}
				}}}
				b.on(mine, opt)()
				due := time.Now().Add(10 * time.Minute)
				b.schedule("first", due)
				b.send(timer.ScheduleTimer{Key: keyOfOther("second"), DueAt: due})
				b.on(mine, opt)
				b.fires(15*time.Minute, "second")
				broken.Store(false)
				b.fires(15*time.Minute, "first")
			})
		})
	}
}
