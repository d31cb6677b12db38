package timer_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// The newest command wins, in any order of arrival: here the CancelTimer comes first.
func ExampleStatus() {
	scheduled := timer.Version{TimestampMS: 1893456000000, CommandID: "c-1"}
	canceled := timer.Version{TimestampMS: 1893456000500, CommandID: "c-2"}

	var status timer.Status // of a key that has no timer
	status, outcome := status.Cancel(canceled)
	fmt.Println(outcome, status.State)
	status, outcome = status.Schedule(scheduled)
	fmt.Println(outcome, status.State)
	// Output:
	// canceled Canceled
	// stale Canceled
}

func ExampleScheduleTimer_Validate() {
	err := timer.ScheduleTimer{
		Key:     timer.Key{TenantID: "acme", ServiceCallID: "order 1"},
		Version: timer.Version{TimestampMS: 1893456000000, CommandID: "c-1"},
		DueAt:   time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC),
	}.Validate()

	fmt.Println(errors.Is(err, timer.ErrInvalid)) // no retry can help
	if invalid, ok := errors.AsType[*timer.InvalidError](err); ok {
		fmt.Println(invalid.Reason, "-", invalid.Detail)
	}
	// Output:
	// true
	// bad_field - serviceCallId "order 1" has a character outside A-Z a-z 0-9 _ . : -
}
