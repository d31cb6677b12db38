package traffic

import (
	"fmt"
	"time"

	"github.com/event-service-agent/timer-service/verify/crash/history"
)

const oldTenant = "of-old"

// Old returns commands for a number of timers of a tenant that is in no other
// traffic: each fires at once or is canceled before it is asked for, and is left
// alone from then on.
func Old(timers int, now time.Time) (tenant string, commands []history.Command) {
	for i := range timers {
		c := history.Command{
			Key:      history.Key{Tenant: oldTenant, Call: fmt.Sprintf("old-%d", i)},
			Version:  history.Version{TimestampMS: now.UnixMilli(), ID: fmt.Sprintf("old-%d", i)},
			DedupeID: fmt.Sprintf("crash-old-%d", i),
			Note:     "to become old",
		}
		if i%4 == 0 {
			c.Kind = history.Cancel
			c.Body = NewBody("CancelTimer", oldTenant, c.Call, c.ID, c.TimestampMS).Plain()
		} else {
			c.Kind, c.DueAt = history.Schedule, now.UTC().Truncate(time.Millisecond)
			c.Body = NewBody("ScheduleTimer", oldTenant, c.Call, c.ID, c.TimestampMS).
				SetPayload("dueAt", Quote(c.DueAt.Format(time.RFC3339Nano))).Plain()
		}
		commands = append(commands, c)
	}
	return oldTenant, commands
}
