package envelope

import (
	"strconv"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// maxTimestampMS is the greatest integer that every JSON implementation reads
// exactly.
const maxTimestampMS = 1<<53 - 1

// text returns what the string says that a field must hold.
func text(field string, v value) ([]byte, error) {
	if len(v) == 0 || v[0] != '"' {
		return nil, mistaken(field, v, "a string")
	}
	return unquote(v), nil
}

// optionalText returns what the string says that a field holds, since it is
// there.
func optionalText(field string, v value) ([]byte, error) {
	if v[0] == 'n' {
		return nil, timer.Invalid(timer.ReasonMissingField, "%s is null; write a string or leave the field out", field)
	}
	return text(field, v)
}

func identifier(field string, v value) (string, error) {
	b, err := text(field, v)
	if err != nil {
		return "", err
	}
	id := string(b)
	if err := timer.ValidateID(field, id); err != nil {
		return "", err
	}
	return id, nil
}

// optional returns an identifier, or "" if it is absent.
func optional(field string, v value) (string, error) {
	if v == nil {
		return "", nil
	}
	if _, err := optionalText(field, v); err != nil {
		return "", err
	}
	return identifier(field, v)
}

func instant(field string, v value) (time.Time, error) {
	s, err := text(field, v)
	if err != nil {
		return time.Time{}, err
	}
	return parseTime(field, s, up)
}

// milliseconds returns the integer that a field must hold, written in digits
// alone.
func milliseconds(field string, v value) (int64, error) {
	if len(v) == 0 || name(v[0]) != aNumber {
		return 0, mistaken(field, v, "an integer")
	}
	n, err := strconv.ParseUint(string(v), 10, 64)
	if err != nil || n > maxTimestampMS {
		return 0, timer.Invalid(timer.ReasonBadField, "%s %s is no integer from 0 to 2^53-1; write Unix milliseconds in digits alone", field, timer.Quote(string(v)))
	}
	return int64(n), nil
}

// mistaken returns the error for a field that does not hold what is wanted.
func mistaken(field string, v value, wanted string) error {
	switch {
	case len(v) == 0:
		return timer.Invalid(timer.ReasonMissingField, "%s is missing; it must be %s", field, wanted)
	case v[0] == 'n':
		return timer.Invalid(timer.ReasonMissingField, "%s is null; it must be %s", field, wanted)
	}
	return timer.Invalid(timer.ReasonBadField, "%s is %s; it must be %s", field, name(v[0]), wanted)
}

const aNumber = "a number"

// name returns what kind of JSON value begins with a byte.
func name(first byte) string {
	switch first {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return aNumber
}
