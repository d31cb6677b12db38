package timer

import (
	"cmp"
	"errors"
	"slices"
)

// MaxScheduleTimers is how many timers one [ScheduleTimers] may hold.
const MaxScheduleTimers = 500

// A ScheduleTimers is up to [MaxScheduleTimers] commands that arrived in one
// message, for imports and campaigns. It is accepted or refused as a whole.
type ScheduleTimers struct {
	TenantID TenantID
	Version                  // of the message
	Commands []ScheduleTimer // of different service calls; each has tenant, version, correlation id and trace of the message
}

// Validate returns an [InvalidError] unless every command is well formed, agrees
// with the message and names a service call of its own. The detail names the
// first command that is wrong, such as "timers[17].dueAt is missing".
func (c ScheduleTimers) Validate() error {
	if err := cmp.Or(c.TenantID.Validate(), c.Version.Validate()); err != nil {
		return err
	}
	switch n := len(c.Commands); {
	case n == 0:
		return Invalid(ReasonMissingField, "timers is empty; send 1 to %d timers in a message", MaxScheduleTimers)
	case n > MaxScheduleTimers:
		return Invalid(ReasonBadField, "timers has more than %d items; send the rest in another message", MaxScheduleTimers)
	}
	correlationID, trace := c.Commands[0].CorrelationID, c.Commands[0].Trace
	if err := validateOptional("correlationId", correlationID); err != nil {
		return err
	}
	index := make(map[ServiceCallID]int, len(c.Commands))
	for i, command := range c.Commands {
		previous, repeated := index[command.ServiceCallID]
		index[command.ServiceCallID] = i
		err := command.ServiceCallID.Validate()
		switch {
		case err != nil:
		case command.TenantID != c.TenantID:
			err = Invalid(ReasonTenantMismatch, "tenantId %s is not %s of the message", Quote(string(command.TenantID)), Quote(string(c.TenantID)))
		case command.Version != c.Version || command.CorrelationID != correlationID || command.Trace != trace:
			err = Invalid(ReasonBadField, "version, correlationId or trace is not that of the message")
		case repeated:
			err = Invalid(ReasonBadField, "serviceCallId %s is that of timers[%d], too; name each service call once", Quote(string(command.ServiceCallID)), previous)
		default:
			err = cmp.Or(ValidateDueAt(command.DueAt), ValidateExpiresAt("expiresAt", command.ExpiresAt, command.DueAt), ValidateData("data", command.Data))
		}
		if invalid, ok := errors.AsType[*InvalidError](err); ok {
			return Invalid(invalid.Reason, "timers[%d].%s", i, invalid.Detail)
		}
	}
	return nil
}

// MessageLen returns how many of the first commands come from one message, and
// are applied together or not at all: those with the tenant and the version of
// the first one.
func MessageLen(commands []ScheduleTimer) int {
	n := min(1, len(commands))
	for n < len(commands) && commands[n].Version == commands[0].Version && commands[n].TenantID == commands[0].TenantID {
		n++
	}
	return n
}

// RefuseTogether gives all commands of a message the error of the first one that
// has one.
func RefuseTogether(commands []ScheduleTimer, results []Result) {
	for len(commands) > 0 {
		n := MessageLen(commands)
		if i := slices.IndexFunc(results[:n], func(r Result) bool { return r.Err != nil }); i >= 0 {
			copy(results, slices.Repeat([]Result{{Err: results[i].Err}}, n))
		}
		commands, results = commands[n:], results[n:]
	}
}
