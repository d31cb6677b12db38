package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

// Headers of the request. An endpoint that keeps the key does its work once.
const (
	headerKey         = "Idempotency-Key"
	headerCorrelation = "X-Correlation-Id"
)

const maxAnswer = 1 << 10 // bytes of an answer that are kept

// An Execution makes the HTTP requests of service calls. It has no state.
type Execution struct {
	client *http.Client
	bus    *Bus
}

// NewExecution returns an Execution that reacts to [StartExecution].
func NewExecution(bus *Bus) *Execution {
	x := &Execution{client: new(http.Client), bus: bus}
	Subscribe(bus, x.execute)
	return x
}

// execute makes the request and publishes how it ended. An error says that it may work
// later: then the request is made again, with the same key.
func (x *Execution) execute(ctx context.Context, s StartExecution) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, nil)
	if err != nil {
		return x.bus.Publish(ctx, ExecutionFailed{s.Key, err.Error()})
	}
	request.Header.Set(headerKey, s.Key.String())
	request.Header.Set(headerCorrelation, s.CorrelationID)
	response, err := x.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return err
	}
	answer := response.Status + " " + string(body)
	switch code := response.StatusCode; {
	case code < 300:
		return x.bus.Publish(ctx, ExecutionSucceeded{s.Key, answer})
	case code >= 500 || code == http.StatusTooManyRequests:
		return fmt.Errorf("execute %s: %s", s.Key, answer)
	default:
		return x.bus.Publish(ctx, ExecutionFailed{s.Key, answer})
	}
}
