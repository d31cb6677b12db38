package envelope

import (
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/event-service-agent/timer-service/timer"
)

// data returns the data of a timer as they are written in the body, or "" if the
// key is absent. They are well formed: that was checked with the rest of the body.
func (d *decoder) data(field string, v value) string {
	if v == nil {
		return ""
	}
	data := string(v)
	d.fail(timer.ValidateData(field, data))
	return data
}

// ValidateData returns an [timer.InvalidError] unless data may travel with a timer:
// one JSON value of at most [timer.MaxDataBytes] of UTF-8, with nothing around it
// and no key twice in an object, that is not too deep for a ScheduleTimer. Field
// names it in the error.
func ValidateData(field, data string) error {
	if err := timer.ValidateData(field, data); err != nil {
		return err
	}
	const deepest = MaxDepth - 2 // below the envelope and its payload
	switch {
	case !utf8.ValidString(data):
		return timer.Invalid(timer.ReasonNotUTF8, "%s is not UTF-8", field)
	case tooDeep([]byte(data), deepest) > 0:
		return timer.Invalid(timer.ReasonTooDeep, "%s is nested deeper than %d; flatten it", field, deepest)
	case !isValue(data):
		return timer.Invalid(timer.ReasonNotJSON, "%s is not one JSON value, or has a key twice", field)
	}
	return nil
}

// isValue reports whether data is one well-formed JSON value, with no space around
// it.
func isValue(data string) bool {
	const space = " \t\r\n"
	return strings.Trim(data, space) == data && jsontext.Value(data).IsValid()
}

// withData inserts the data of a timer, byte for byte, before the end of a body, unless
// there are none. The library would format them. What is no JSON value makes the body none.
func withData(body []byte, end, data string) []byte {
	switch {
	case data == "":
		return body
	case !isValue(data):
		data = ""
	}
	return insert(body, end, "data", data)
}

// insert adds a field before the end of a body, which is one or more braces.
func insert[V ~string | ~[]byte](body []byte, end, name string, value V) []byte {
	body = append(body[:len(body)-len(end)], `,"`+name+`":`...)
	return append(append(body, value...), end...)
}
