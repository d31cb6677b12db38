package schema_test

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/event-service-agent/timer-service/envelope/schema"
)

// The schema of a message says what a command must have.
func ExampleOf() {
	var command struct {
		ID       string   `json:"$id"`
		Required []string `json:"required"`
	}
	if err := json.Unmarshal(schema.Of("ScheduleTimer"), &command); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(command.ID)
	fmt.Println(command.Required)
	fmt.Println(schema.Of("Nothing") == nil)
	// Output:
	// https://github.com/event-service-agent/timer-service/contract/1.1/ScheduleTimer
	// [id type tenantId timestampMs payload]
	// true
}

// All messages have a schema, and each also one for CloudEvents.
func ExampleNames() {
	names := schema.Names()
	for _, name := range []string{"ScheduleTimer", "DueTimeReached", "DueTimeReachedCloudEvent", "CommandHeaders"} {
		fmt.Println(name, slices.Contains(names, name))
	}
	// Output:
	// ScheduleTimer true
	// DueTimeReached true
	// DueTimeReachedCloudEvent true
	// CommandHeaders true
}

// The AsyncAPI document names the channels of each broker.
func ExampleAsyncAPI() {
	var document struct {
		AsyncAPI string `json:"asyncapi"`
		Info     struct {
			Version string `json:"version"`
		} `json:"info"`
	}
	if err := json.Unmarshal(schema.AsyncAPI(), &document); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(document.AsyncAPI, document.Info.Version == schema.Version)
	// Output: 3.0.0 true
}
