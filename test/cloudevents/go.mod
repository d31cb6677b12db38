module github.com/event-service-agent/timer-service/test/cloudevents

go 1.26.0

require (
	github.com/cloudevents/sdk-go/v2 v2.16.2
	github.com/event-service-agent/timer-service v0.0.0
	github.com/google/go-cmp v0.7.0
	pgregory.net/rapid v1.3.0
)

require (
	github.com/go-json-experiment/json v0.0.0-20260820222146-c27c302e5fc3 // indirect
	github.com/json-iterator/go v1.1.12 // indirect
	github.com/modern-go/concurrent v0.0.0-20180306012644-bacd9c7ef1dd // indirect
	github.com/modern-go/reflect2 v1.0.2 // indirect
)

replace github.com/event-service-agent/timer-service => ../..
