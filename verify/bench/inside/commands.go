package inside

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/event-service-agent/timer-service/timer"
)

// newID returns an identifier as producers make them.
func newID() string { return uuid.Must(uuid.NewV7()).String() }

// A maker makes commands of some tenants in turn.
type maker struct {
	tenants int
	made    int
}

// commands makes commands, due when the function says.
func (m *maker) commands(n int, now time.Time, due func(n int) time.Time) []timer.ScheduleTimer {
	commands := make([]timer.ScheduleTimer, n)
	for i := range commands {
		commands[i] = timer.ScheduleTimer{
			Key: timer.Key{
				TenantID:      timer.TenantID(fmt.Sprint("tenant-", m.made%m.tenants)),
				ServiceCallID: timer.ServiceCallID(newID()),
			},
			Version:       timer.Version{TimestampMS: now.UnixMilli(), CommandID: newID()},
			CorrelationID: newID(),
			DueAt:         due(m.made),
		}
		m.made++
	}
	return commands
}
