package main

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/apiclient"
	"github.com/event-service-agent/timer-service/timer"
)

// noTimers is a database without timers.
type noTimers struct{ timer.Reader }

func (noTimers) Get(context.Context, timer.Key) (timer.Entry, error) {
	return timer.Entry{}, timer.ErrNotFound
}

// The timeout counts from the due time, or from now if that is past.
func TestWaitEndsAfterTheTimeout(t *testing.T) {
	t.Parallel()
	tests := []struct{ in, want time.Duration }{
		{time.Hour, time.Hour + 30*time.Second},
		{-time.Hour, 30 * time.Second},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			p := &publishResult{Command: admin.Command{TenantID: "acme", ServiceCallID: "order-1", DueAt: envelope.FormatTime(time.Now().Add(tt.in))}}
			began := time.Now()
			err := p.await(t.Context(), time.Now, apiclient.Within(noTimers{}), waitOptions{timeout: timeout(30 * time.Second)})
			if took := time.Since(began); took != tt.want {
				t.Errorf("due in %v: waited %v, want %v", tt.in, took, tt.want)
			}
			if err == nil || !strings.Contains(err.Error(), "no answer within 30s") {
				t.Errorf("due in %v: %v", tt.in, err)
			}
		})
	}
}
