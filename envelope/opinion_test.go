package envelope_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// This file is a second opinion on what a body says, for the fuzz tests: slow,
// plain, made of the standard library and regular expressions, and of nothing
// that Decode is made of.

var (
	tenantForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)
	callForm   = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,128}$`)
	idForm     = regexp.MustCompile(`^[!-~]{1,128}$`)
	digitsForm = regexp.MustCompile(`^[0-9]+$`)
	timeForm   = regexp.MustCompile(`^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-](\d\d):(\d\d))$`)

	// The standard library reads half of a surrogate pair as U+FFFD.
	surrogateForm = regexp.MustCompile(`\\u[dD][89a-fA-F][0-9a-fA-F]{2}`)
	pairForm      = regexp.MustCompile(`\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}`)
)

var errOpinion = errors.New("refused")

// opinion returns type and payload of a body, or an error.
func opinion(body []byte) (kind string, payload any, err error) {
	top, err := wellFormed(body)
	if err != nil {
		return "", nil, err
	}
	kind, ok := top["type"].(string)
	switch {
	case !ok || kind == "":
		return "", nil, errOpinion
	case kind != "ScheduleTimer" && kind != "CancelTimer" && kind != "DueTimeReached":
		return kind, nil, nil
	}
	var trace timer.Trace
	if _, there := top["specversion"]; there {
		if trace, ok = opinionOfCloudEvent(top); !ok {
			return "", nil, errOpinion
		}
	}
	if payload = opinionOfPayload(kind, top); payload == nil {
		return "", nil, errOpinion
	}
	switch p := payload.(type) {
	case timer.ScheduleTimer:
		p.Trace = trace
		payload = p
	case timer.DueTimeReached:
		p.Trace = trace
		payload = p
	}
	return kind, payload, nil
}

func opinionOfPayload(kind string, top map[string]any) any {
	inner, _ := top["payload"].(map[string]any)
	id, _ := top["id"].(string)
	tenant, _ := top["tenantId"].(string)
	call, _ := inner["serviceCallId"].(string)
	stamp, _ := top["timestampMs"].(json.Number)
	ms, err := strconv.ParseInt(stamp.String(), 10, 64)
	if err != nil || ms >= 1<<53 || !digitsForm.MatchString(stamp.String()) ||
		!idForm.MatchString(id) || !tenantForm.MatchString(tenant) || !callForm.MatchString(call) || inner["tenantId"] != tenant {
		return nil
	}
	for _, field := range []string{"correlationId", "causationId"} {
		given, there := top[field]
		text, _ := given.(string)
		if there && !idForm.MatchString(text) {
			return nil
		}
	}
	aggregate, there := top["aggregateId"]
	if there && aggregate != call || !there && kind == "DueTimeReached" {
		return nil
	}
	correlation, _ := top["correlationId"].(string)
	key := timer.Key{TenantID: timer.TenantID(tenant), ServiceCallID: timer.ServiceCallID(call)}
	version := timer.Version{TimestampMS: ms, CommandID: id}
	dueText, _ := inner["dueAt"].(string)
	due, dueOK := opinionOfTime(dueText)
	reachedText, _ := inner["reachedAt"].(string)
	reached, reachedOK := opinionOfTime(reachedText)
	switch {
	case kind == "CancelTimer":
		return timer.CancelTimer{Key: key, Version: version, CorrelationID: correlation}
	case kind == "ScheduleTimer" && dueOK:
		return timer.ScheduleTimer{Key: key, Version: version, DueAt: due, CorrelationID: correlation}
	case kind == "DueTimeReached" && dueOK && reachedOK:
		return timer.DueTimeReached{Key: key, ID: id, DueAt: due, ReachedAt: reached, CorrelationID: correlation}
	}
	return nil
}

// wellFormed returns the object that a body is.
func wellFormed(body []byte) (map[string]any, error) {
	if len(body) > envelope.MaxBytes || !utf8.Valid(body) {
		return nil, errOpinion
	}
	// An escaped backslash before a u is no escape.
	escapes := strings.ReplaceAll(string(body), `\\`, `__`)
	if surrogateForm.MatchString(pairForm.ReplaceAllString(escapes, "__")) {
		return nil, errOpinion
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	v, err := wellFormedValue(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errOpinion
	}
	top, ok := v.(map[string]any)
	if !ok || !json.Valid(body) { // the tokens alone do not tell of every mistake
		return nil, errOpinion
	}
	return top, nil
}

func wellFormedValue(d *json.Decoder, depth int) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	open, ok := token.(json.Delim)
	if !ok {
		return token, nil
	}
	if depth == envelope.MaxDepth {
		return nil, errOpinion
	}
	object := map[string]any{}
	for d.More() {
		if open == '{' {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			name, ok := key.(string)
			if _, twice := object[name]; twice || !ok {
				return nil, errOpinion
			}
			if object[name], err = wellFormedValue(d, depth+1); err != nil {
				return nil, err
			}
		} else if _, err := wellFormedValue(d, depth+1); err != nil {
			return nil, err
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if open == '[' {
		return []any{}, nil // what is in it is of no interest
	}
	return object, nil
}

// opinionOfTime returns the time that s names, rounded up.
func opinionOfTime(s string) (time.Time, bool) {
	t, finer, ok := opinionOfClock(s)
	if finer {
		t = t.Add(time.Millisecond)
	}
	return t, ok && 2000 <= t.Year() && t.Year() <= 2200
}

// opinionOfClock returns the time that s names, cut off after the milliseconds,
// and whether something was cut off.
func opinionOfClock(s string) (t time.Time, finer, ok bool) {
	parts := timeForm.FindStringSubmatch(strings.ToUpper(s))
	if parts == nil || len(strings.ToUpper(s)) != len(s) {
		return time.Time{}, false, false
	}
	t, err := time.Parse(time.RFC3339, parts[1]+parts[3])
	if err != nil {
		return time.Time{}, false, false
	}
	if parts[4] != "" && (parts[4] > "14" || parts[5] > "59" || parts[4] == "14" && parts[5] > "00") {
		return time.Time{}, false, false
	}
	fraction := strings.TrimPrefix(parts[2], ".") + "000"
	ms, err := strconv.Atoi(fraction[:3])
	if err != nil {
		return time.Time{}, false, false
	}
	t = t.Add(time.Duration(ms) * time.Millisecond).UTC()
	return t, strings.Trim(fraction[3:], "0") != "", true
}
