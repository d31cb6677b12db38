package recipes

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/timer"
)

// Reminders of tasks, whose names have no dot, and each of which may be put off any number of times. A timer that waits is
// moved by scheduling its key again; one that has fired is final. So each time that a task is
// put off has a timer of its own: task.7.0, task.7.1, and so on.
type Reminders struct {
	timers *app.Timers
	remind func(ctx context.Context, task string, putOff int) error
}

const tasks = "task."

// NewReminders returns reminders, and handles their timers. It is called before the start of
// the app. Remind may see a reminder twice, if the process ends after it.
func NewReminders(timers *app.Timers, remind func(ctx context.Context, task string, putOff int) error) *Reminders {
	r := &Reminders{timers: timers, remind: remind}
	timers.OnDue(tasks, func(ctx context.Context, e timer.DueTimeReached) error {
		task, number, _ := strings.Cut(string(e.ServiceCallID[len(tasks):]), ".")
		putOff, err := strconv.Atoi(number)
		if err != nil {
			return fmt.Errorf("%w: %w", timer.ErrInvalid, err) // no retry can help
		}
		return r.remind(ctx, task, putOff)
	}, app.OnDueOptions{})
	return r
}

// At schedules the reminder of a task, which was put off a number of times before. As long as
// it has not fired, a further call moves it.
func (r *Reminders) At(ctx context.Context, tenant timer.TenantID, task string, putOff int, due time.Time) error {
	id := timer.ServiceCallID(tasks + task + "." + strconv.Itoa(putOff))
	return r.timers.Schedule(ctx, client.Timer{TenantID: tenant, ServiceCallID: id, DueAt: due})
}

// Done cancels the reminders of a task, however often it was put off. The dot at the end
// keeps task 70 out of those of task 7.
func (r *Reminders) Done(ctx context.Context, tenant timer.TenantID, task string) error {
	_, err := r.timers.CancelWhere(ctx, tenant, timer.Selection{Prefix: tasks + task + "."})
	return err
}
