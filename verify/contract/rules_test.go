package contract_test

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// firstMS is the first timestampMs that the service takes, the year 2000.
const firstMS = 946_684_800_000

// broken reports, for each rule that a schema can't express, whether a body breaks
// it. It shares no code with envelope.Decode.
var broken = map[string]func(body []byte) bool{
	"text":      func(body []byte) bool { return !utf8.Valid(body) || loneSurrogate(body) },
	"size":      func(body []byte) bool { return len(body) > 65536 },
	"depth":     func(body []byte) bool { deepest, _ := walk(body); return deepest > 16 },
	"duplicate": func(body []byte) bool { _, twice := walk(body); return twice },
	"digits":    func(body []byte) bool { return !regexp.MustCompile(`^[0-9]+$`).Match(read(body).top["timestampMs"]) },
	"tenant": func(body []byte) bool {
		m := read(body)
		return m.tenant != nil && !same(m.tenant, m.payload["tenantId"])
	},
	"call": func(body []byte) bool {
		m := read(body)
		return m.call != nil && !same(m.call, m.payload["serviceCallId"])
	},
	"date": func(body []byte) bool {
		m := read(body)
		late := func(s string) bool { return s != "" && badDate(s, true) }
		return m.time != "" && badDate(m.time, false) || slices.ContainsFunc(m.times, late)
	},
	"data": func(body []byte) bool {
		return slices.ContainsFunc(read(body).data, func(data json.RawMessage) bool { return len(data) > 4096 })
	},
	"distinct": func(body []byte) bool {
		calls := slices.Sorted(slices.Values(read(body).calls))
		return len(slices.Compact(slices.Clone(calls))) < len(calls)
	},
	"source": func(body []byte) bool { _, err := url.Parse(text(read(body).top["source"])); return err != nil },
	"contenttype": func(body []byte) bool {
		_, _, err := mime.ParseMediaType(text(read(body).top["datacontenttype"]))
		return err != nil
	},
}

// A content is what a message says, in either form.
type content struct {
	top, payload map[string]json.RawMessage
	tenant, call json.RawMessage // outside the payload; nil if absent
	time         string          // of a CloudEvent
	times        []string        // dueAt and reachedAt
	calls        []string        // of timers
	data         []json.RawMessage
}

func read(body []byte) (c content) {
	c.top = members(body)
	if _, cloudEvent := c.top["specversion"]; cloudEvent {
		c.payload, c.tenant, c.call, c.time = members(c.top["data"]), given(c.top["tenantid"]), given(c.top["subject"]), text(c.top["time"])
	} else {
		c.payload, c.tenant, c.call = members(c.top["payload"]), c.top["tenantId"], c.top["aggregateId"]
	}
	var timers []map[string]json.RawMessage
	_ = json.Unmarshal(c.payload["timers"], &timers) // of what is no list there is none
	for _, item := range append(timers, c.payload) {
		c.times = append(c.times, text(item["dueAt"]))
		c.data = append(c.data, item["data"])
	}
	for _, item := range timers {
		c.calls = append(c.calls, text(item["serviceCallId"]))
	}
	if reached, ok := c.payload["reachedAt"]; ok {
		c.times = append(c.times, text(reached))
	}
	return c
}

func members(object json.RawMessage) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	_ = json.Unmarshal(object, &m) // of what is no object there is none
	return m
}

// given returns nil for null, which stands for an absent attribute of a CloudEvent.
func given(v json.RawMessage) json.RawMessage {
	if string(v) == "null" {
		return nil
	}
	return v
}

func text(v json.RawMessage) (s string) {
	_ = json.Unmarshal(v, &s) // of what is no string there is none
	return s
}

func same(a, b json.RawMessage) bool { return text(a) == text(b) }

// loneSurrogate reports whether an escape is half of a pair.
func loneSurrogate(body []byte) bool {
	escapes := strings.ReplaceAll(string(body), `\\`, `__`) // an escaped backslash before a u is no escape
	pairs := regexp.MustCompile(`\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}`).ReplaceAllString(escapes, "__")
	return regexp.MustCompile(`\\u[dD][89a-fA-F]`).MatchString(pairs)
}

// walk returns how deep a body is nested, and whether an object has a key twice.
func walk(body []byte) (deepest int, twice bool) {
	d := json.NewDecoder(bytes.NewReader(body))
	type level struct {
		keys  map[string]bool // nil in an array
		value bool            // a key was read, its value comes next
	}
	var levels []level
	for {
		token, err := d.Token()
		if err != nil {
			return deepest, twice && err == io.EOF
		}
		var top *level
		if len(levels) > 0 {
			top = &levels[len(levels)-1]
		}
		switch v := token.(type) {
		case json.Delim:
			if v == '}' || v == ']' {
				levels = levels[:len(levels)-1]
				continue
			}
			if top != nil {
				top.value = false
			}
			next := level{}
			if v == '{' {
				next.keys = make(map[string]bool)
			}
			levels = append(levels, next)
			deepest = max(deepest, len(levels))
		case string:
			if top != nil && top.keys != nil && !top.value {
				twice = twice || top.keys[v]
				top.keys[v], top.value = true, true
				continue
			}
			if top != nil {
				top.value = false
			}
		default:
			if top != nil {
				top.value = false
			}
		}
	}
}

// badDate reports whether a time that has the right form names a day that its month
// does not have, or is outside 2000 to 2200.
func badDate(s string, roundUp bool) bool {
	s = strings.ToUpper(s)
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		day := regexp.MustCompile(`^(.{8})(29|30|31)(.*)$`).FindStringSubmatch(s)
		if day == nil {
			return false
		}
		_, err = time.Parse(time.RFC3339, day[1]+"28"+day[3])
		return err == nil
	}
	t = t.UTC()
	if roundUp && regexp.MustCompile(`\.[0-9]{3}[0-9]*[1-9]`).MatchString(s) {
		t = t.Truncate(time.Millisecond).Add(time.Millisecond)
	}
	return t.Year() < 2000 || t.Year() > 2200
}
