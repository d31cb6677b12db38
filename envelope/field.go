package envelope

import (
	"errors"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/event-service-agent/timer-service/timer"
)

// text returns the text of the string that a field must hold.
func (d *decoder) text(field string, v value) []byte {
	if len(v) == 0 || v[0] != '"' {
		d.fail(mistaken(field, v, "a string"))
		return nil
	}
	return unquote(v)
}

func (d *decoder) identifier(field string, v value) string {
	id := string(d.text(field, v))
	d.fail(timer.ValidateID(field, id))
	return id
}

// optional returns an identifier, or "" if it is absent.
func (d *decoder) optional(field string, v value) string {
	if v == nil {
		return ""
	}
	return d.identifier(field, v)
}

func (d *decoder) instant(field string, v value) time.Time {
	t, err := parseTime(field, d.text(field, v), up)
	d.fail(err)
	return t
}

// maxTimestampMS is the greatest integer that every JSON implementation reads
// exactly.
const maxTimestampMS = 1<<53 - 1

// milliseconds returns the integer that a field must hold, written in digits
// alone.
func (d *decoder) milliseconds(field string, v value) int64 {
	if len(v) == 0 || jsontext.Value(v).Kind() != jsontext.KindNumber {
		d.fail(mistaken(field, v, "an integer"))
		return 0
	}
	n, err := strconv.ParseUint(string(v), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange), err == nil && n > maxTimestampMS:
		d.fail(timer.Invalid(timer.ReasonBadTime, "%s %s is greater than 2^53-1%s", field, timer.Quote(string(v)), timer.UnitHint(n)))
	case err != nil:
		d.fail(timer.Invalid(timer.ReasonBadField, "%s %s is not an integer; write Unix milliseconds in digits alone", field, timer.Quote(string(v))))
	}
	return int64(n)
}

// mistaken returns the error for a field whose value is absent or of the wrong
// kind.
func mistaken(field string, v value, wanted string) error {
	switch {
	case len(v) == 0:
		return timer.Invalid(timer.ReasonMissingField, "%s is missing; it must be %s", field, wanted)
	case isNull(v):
		return timer.Invalid(timer.ReasonMissingField, "%s is null; it must be %s", field, wanted)
	}
	return timer.Invalid(timer.ReasonBadField, "%s is %s; it must be %s", field, kindName(jsontext.Value(v).Kind()), wanted)
}

func isNull(v value) bool { return len(v) > 0 && v[0] == 'n' }

func kindName(kind jsontext.Kind) string {
	switch kind {
	case jsontext.KindBeginObject:
		return "an object"
	case jsontext.KindBeginArray:
		return "an array"
	case jsontext.KindString:
		return "a string"
	case jsontext.KindTrue, jsontext.KindFalse:
		return "a boolean"
	case jsontext.KindNull:
		return "null"
	}
	return "a number"
}
