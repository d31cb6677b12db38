package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// A duration is a flag that takes what settings take.
type duration time.Duration

// UnmarshalText reads "3s", "90m", "7d", or a number of milliseconds.
func (d *duration) UnmarshalText(text []byte) error {
	parsed, err := config.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("must be a duration such as 3s, 90m or 7d, or a number of milliseconds, not %s", timer.Quote(string(text)))
	}
	*d = duration(parsed)
	return nil
}

// An instant is a flag that takes a time as messages carry it.
type instant time.Time

// UnmarshalText reads RFC 3339 with a zone.
func (i *instant) UnmarshalText(text []byte) error {
	parsed, err := envelope.ParseTime(string(text))
	if err != nil {
		return errors.New(detail(err))
	}
	*i = instant(parsed)
	return nil
}
