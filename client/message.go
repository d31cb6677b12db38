package client

import (
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// A Command is a [timer.ScheduleTimer], [timer.ScheduleTimers], [timer.CancelTimer],
// [timer.CancelTimers] or [timer.RescheduleTimers].
type Command interface{ Validate() error }

// Message returns the message of a command that has a version, with the headers of the contract. Its
// UUID is the id of the command. The error for a command that the service would refuse wraps
// [timer.ErrInvalid].
func Message(command Command) (*message.Message, error) {
	if err := command.Validate(); err != nil {
		return nil, err
	}
	var body []byte // of another type there is none, and it does not decode
	switch c := command.(type) {
	case timer.ScheduleTimer:
		if err := validateData(c.Data); err != nil {
			return nil, err
		}
		body = envelope.Schedule(c)
	case timer.ScheduleTimers:
		body = envelope.ScheduleMany(c)
	case timer.CancelTimer:
		body = envelope.Cancel(c)
	case timer.CancelTimers:
		body = envelope.CancelMany(c)
	case timer.RescheduleTimers:
		body = envelope.RescheduleMany(c)
	}
	if _, err := envelope.Decode(body); err != nil {
		return nil, err
	}
	headers := envelope.CommandHeaders(command)
	msg := message.NewMessage(headers[envelope.HeaderMessageID], body)
	msg.Metadata = headers
	return msg, nil
}
