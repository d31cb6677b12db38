package service_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/event-service-agent/timer-service/internal/apiclient"
	"github.com/event-service-agent/timer-service/internal/longtest"
)

// TestInvalidCommandsOfATenantStopNoOther fills the stream with messages of a tenant. Another one
// schedules meanwhile, and after a restart.
func TestInvalidCommandsOfATenantStopNoOther(t *testing.T) {
	longtest.NotShort(t)
	t.Parallel()
	for name, test := range map[string]struct {
		limit       string
		count, size int
	}{
		"large ones": {"16MiB", 300, 60_000},
		"small ones": {"1MiB", 1500, 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := load(t, "TIMER_NATS_MAX_BYTES="+test.limit, "TIMER_HTTP_ADDR=127.0.0.1:0")
			put := func(c *apiclient.Client, call string) error {
				_, err := c.Send(t.Context(), http.MethodPut, apiclient.Path("tenants", "globex", "timers", call)+"?wait=5s", []byte(`{"in":"1h"}`))
				return err
			}
			for start := range 2 {
				r := run(t, cfg)
				address, _, _ := strings.Cut(r.line("http"), ",")
				c := apiclient.New(address, "")
				conn, err := natsgo.Connect(r.line("ready"), natsgo.Timeout(time.Minute))
				must(t, err)
				stored := 0
				for i := 0; stored < test.count && i < 20*test.count; i++ {
					body := fmt.Sprintf(`{"id":"bad-%d-%d","type":"ScheduleTimer","tenantId":"acme","payload":%q}`, start, i, bytes.Repeat([]byte("x"), test.size))
					ack, err := conn.Request("timer.commands", []byte(body), time.Minute)
					must(t, err)
					if !bytes.Contains(ack.Data, []byte(`"error"`)) {
						stored++
					}
				}
				conn.Close()
				// The last ones have filled the stream to the brim, until consumed ones are removed.
				until(t, "timers of another tenant", func() bool {
					for i := range 20 {
						if put(c, fmt.Sprint("call-", i)) != nil {
							return false
						}
					}
					return true
				})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				if err := connected(t, cfg).CatchUp(ctx, "timer-service"); err != nil {
					t.Errorf("start %d: commands are not settled: %v", start, err)
				}
				cancel()
				until(t, "the service is ready", func() bool {
					answer, err := http.Get(address + "/readyz")
					return err == nil && answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
				})
				r.stops()
			}
		})
	}
}
