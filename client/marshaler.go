package client

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// A Marshaler makes messages of commands and events and reads them, for the component
// cqrs of Watermill, whose CommandEventMarshaler it is. It knows [timer.ScheduleTimer],
// [timer.ScheduleTimers], [timer.CancelTimer], [timer.CancelTimers], [timer.RescheduleTimers], [timer.DueTimeReached]
// and [timer.TimerExpired], by value or by pointer, and makes a ScheduleTimer of a [Timer]. The
// error for an invalid message, command or event wraps [timer.ErrInvalid].
//
// The component cqrs hands no context to its marshaler, so a command gets no trace from one.
type Marshaler struct {
	Clock timer.Clock // of commands without a version; default time.Now
}

// Marshal returns the message of a command or event, with the headers of the contract.
// Its UUID is the id of the command or event. A ScheduleTimer or a cancel without a
// version gets one, as of now.
func (m Marshaler) Marshal(v any) (*message.Message, error) {
	switch c := valueOf(v).(type) {
	case Timer:
		command, err := c.Command(m.now())
		if err != nil {
			return nil, err
		}
		return m.Marshal(command)
	case timer.ScheduleTimer:
		c.Version = version(c.Version, m.now())
		if err := validate(c); err != nil {
			return nil, err
		}
		return newMessage(c.CommandID, envelope.Schedule(c), envelope.CommandHeaders(c))
	case timer.ScheduleTimers:
		if err := c.Validate(); err != nil {
			return nil, err
		}
		return newMessage(c.CommandID, envelope.ScheduleMany(c), envelope.CommandHeaders(c))
	case timer.CancelTimer:
		c.Version = version(c.Version, m.now())
		return newMessage(c.CommandID, envelope.Cancel(c), envelope.CommandHeaders(c))
	case timer.CancelTimers:
		c.Version = version(c.Version, m.now())
		return newMessage(c.CommandID, envelope.CancelMany(c), envelope.CommandHeaders(c))
	case timer.RescheduleTimers:
		c.Version = version(c.Version, m.now())
		return newMessage(c.CommandID, envelope.RescheduleMany(c), envelope.CommandHeaders(c))
	case timer.DueTimeReached:
		if c.ID == "" {
			c.ID = envelope.EventID(c)
		}
		return newMessage(c.ID, envelope.Reached(c), envelope.HeadersOf(c))
	case timer.TimerExpired:
		return m.Marshal(c.Event())
	}
	return nil, timer.Invalid(timer.ReasonUnknownType, "%T is no command or event of timers", v)
}

func (m Marshaler) now() time.Time {
	if m.Clock == nil {
		return time.Now() //nolint:forbidigo // the default of a clock
	}
	return m.Clock.Now()
}

// newMessage returns a message, or an error if the service would refuse it.
func newMessage(id string, body []byte, headers map[string]string) (*message.Message, error) {
	if _, err := envelope.Decode(body); err != nil {
		return nil, err
	}
	msg := message.NewMessage(id, body)
	msg.Metadata = headers
	return msg, nil
}

// Unmarshal reads a message, strictly, into a pointer to the command or event that it is.
// It reads envelopes and CloudEvents. A correlation id and a trace that the body lacks are
// taken from the headers.
func (m Marshaler) Unmarshal(msg *message.Message, v any) error {
	payload, kind, err := decode(msg)
	if err != nil {
		return err
	}
	if to := reflect.ValueOf(v); to.Kind() == reflect.Pointer && to.Type().Elem() == reflect.TypeOf(payload) {
		to.Elem().Set(reflect.ValueOf(payload))
		return nil
	}
	return timer.Invalid(timer.ReasonUnknownType, "type %s is not %s", timer.Quote(kind), m.Name(v))
}

// Name returns the type of a command or event, as messages have it.
func (Marshaler) Name(v any) string {
	switch valueOf(v).(type) {
	case Timer, timer.ScheduleTimer:
		return envelope.TypeScheduleTimer
	}
	name := fmt.Sprintf("%T", valueOf(v))
	return name[strings.LastIndexByte(name, '.')+1:]
}

// NameFromMessage returns the type of a message, by its header, or without that its body;
// empty if that can't be read.
func (Marshaler) NameFromMessage(msg *message.Message) string {
	if kind := msg.Metadata.Get(envelope.HeaderType); kind != "" {
		return kind
	}
	_, kind, _ := decode(msg) // without an error there is none
	return kind
}

// valueOf returns the value that v points to, or v itself if it is not a pointer.
func valueOf(v any) any {
	if p := reflect.ValueOf(v); p.Kind() == reflect.Pointer && !p.IsNil() {
		return p.Elem().Interface()
	}
	return v
}

// decode reads a message. A correlation id and a trace that its body lacks come from its
// headers.
func decode(msg *message.Message) (payload any, kind string, err error) {
	m, err := envelope.DecodeWith(msg.Payload, msg.Metadata.Get)
	return m.Payload, m.Type, err
}
