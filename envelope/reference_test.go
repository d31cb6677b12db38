package envelope_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// This file is a reference decoder for the fuzz tests: slow,
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

func isCall(text string) bool { return callForm.MatchString(text) && text != "." && text != ".." }

var errRefused = errors.New("refused")

// reference returns type and payload of a body, or an error.
func reference(body []byte) (kind string, payload any, err error) {
	top, err := wellFormed(body)
	if err != nil {
		return "", nil, err
	}
	kind, ok := top["type"].(string)
	switch {
	case !ok || kind == "":
		return "", nil, errRefused
	case !slices.Contains([]string{
		"ScheduleTimer", "ScheduleTimers", "CancelTimer", "CancelTimers", "DueTimeReached", "TimerExpired", "TimerScheduled", "TimerCanceled", "TimerIgnored", "TimerRejected",
	}, kind):
		return kind, nil, nil
	}
	payloadKey := "payload"
	var trace timer.Trace
	if _, there := top["specversion"]; there {
		payloadKey = "data"
		if trace, ok = referenceCloudEvent(top); !ok {
			return "", nil, errRefused
		}
	}
	for _, optional := range []string{"aggregateId", "correlationId", "causationId"} {
		if top[optional] == nil {
			delete(top, optional)
		}
	}
	keepData(top["payload"], member(body, payloadKey))
	if payload = referencePayload(kind, top); payload == nil {
		return "", nil, errRefused
	}
	switch p := payload.(type) {
	case timer.ScheduleTimer:
		p.Trace = trace
		payload = p
	case timer.ScheduleTimers:
		for i := range p.Commands {
			p.Commands[i].Trace = trace
		}
	case timer.CancelTimer:
		p.Trace = trace
		payload = p
	case timer.CancelTimers:
		p.Trace = trace
		payload = p
	case timer.Receipt:
		p.Trace = trace
		payload = p
	case timer.DueTimeReached:
		p.Trace = trace
		payload = p
	case timer.TimerExpired:
		p.Trace = trace
		payload = p
	}
	return kind, payload, nil
}

// A written is a JSON value as it is written.
type written string

// member returns a member of an object that is well formed, or nil.
func member(object json.RawMessage, name string) json.RawMessage {
	var members map[string]json.RawMessage
	_ = json.Unmarshal(object, &members) // of what is no object there is none
	return members[name]
}

// keepData replaces the data of a payload, and of its timers, by what is written.
func keepData(payload any, text json.RawMessage) {
	inner, ok := payload.(map[string]any)
	if !ok {
		return
	}
	if _, there := inner["data"]; there {
		inner["data"] = written(member(text, "data"))
	}
	items, _ := inner["timers"].([]any)
	var texts []json.RawMessage
	_ = json.Unmarshal(member(text, "timers"), &texts)
	for i, item := range items {
		keepData(item, texts[i])
	}
}

// referenceData returns the data of a payload or a timer.
func referenceData(object map[string]any) (string, bool) {
	data, _ := object["data"].(written)
	return string(data), len(data) <= 4096
}

func referencePayload(kind string, top map[string]any) any {
	inner, _ := top["payload"].(map[string]any)
	id, _ := top["id"].(string)
	tenant, _ := top["tenantId"].(string)
	call, _ := inner["serviceCallId"].(string)
	stamp, _ := top["timestampMs"].(json.Number)
	ms, err := strconv.ParseInt(stamp.String(), 10, 64)
	if err != nil || ms >= 1<<53 || !digitsForm.MatchString(stamp.String()) ||
		!idForm.MatchString(id) || !tenantForm.MatchString(tenant) || inner["tenantId"] != tenant {
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
	correlation, _ := top["correlationId"].(string)
	version := timer.Version{TimestampMS: ms, CommandID: id}
	if kind == "ScheduleTimers" {
		if there {
			return nil
		}
		return referenceTimers(inner["timers"], timer.ScheduleTimer{
			Key: timer.Key{TenantID: timer.TenantID(tenant)}, Version: version, CorrelationID: correlation,
		})
	}
	if kind == "CancelTimers" {
		of, ok := referenceSelection(inner)
		if there || !ok {
			return nil
		}
		return timer.CancelTimers{TenantID: timer.TenantID(tenant), Version: version, Of: of, CorrelationID: correlation}
	}
	if strings.HasPrefix(kind, "Timer") && kind != "TimerExpired" {
		return referenceReceipt(kind, top, inner, timer.Receipt{
			Key: timer.Key{TenantID: timer.TenantID(tenant)}, ID: id, CorrelationID: correlation, At: time.UnixMilli(ms).UTC(),
		})
	}
	if !isCall(call) || there && aggregate != call || !there && (kind == "DueTimeReached" || kind == "TimerExpired") {
		return nil
	}
	key := timer.Key{TenantID: timer.TenantID(tenant), ServiceCallID: timer.ServiceCallID(call)}
	dueText, _ := inner["dueAt"].(string)
	due, dueOK := referenceTime(dueText)
	reachedText, _ := inner["reachedAt"].(string)
	reached, reachedOK := referenceTime(reachedText)
	expiredText, _ := inner["expiredAt"].(string)
	expired, expiredOK := referenceTime(expiredText)
	expires, expiresOK := referenceExpiry(inner, due)
	data, dataOK := referenceData(inner)
	dataOK = dataOK && (expiresOK || kind == "CancelTimer")
	switch {
	case kind == "CancelTimer":
		return timer.CancelTimer{Key: key, Version: version, CorrelationID: correlation}
	case kind == "ScheduleTimer" && dueOK && dataOK:
		return timer.ScheduleTimer{Key: key, Version: version, DueAt: due, ExpiresAt: expires, CorrelationID: correlation, Data: data}
	case kind == "TimerExpired" && dueOK && expiredOK && dataOK && !expires.IsZero() && !expired.Before(expires):
		return timer.TimerExpired{Key: key, ID: id, DueAt: due, ExpiresAt: expires, ExpiredAt: expired, CorrelationID: correlation, Data: data}
	case kind == "DueTimeReached" && dueOK && reachedOK && dataOK && (expires.IsZero() || reached.Before(expires)):
		return timer.DueTimeReached{Key: key, ID: id, DueAt: due, ExpiresAt: expires, ReachedAt: reached, CorrelationID: correlation, Data: data}
	}
	return nil
}

// referenceExpiry returns when a timer of an object expires that is due at a time.
func referenceExpiry(object map[string]any, due time.Time) (time.Time, bool) {
	given := object["expiresAt"]
	if given == nil {
		return time.Time{}, true
	}
	text, _ := given.(string)
	t, ok := referenceTime(text)
	return t, ok && t.After(due)
}

// referenceSelection returns which timers a CancelTimers names.
func referenceSelection(inner map[string]any) (of timer.Selection, ok bool) {
	given := 0
	for _, field := range []string{"serviceCallIds", "prefix", "correlationId"} {
		if inner[field] == nil {
			continue
		}
		given++
		text, _ := inner[field].(string)
		switch field {
		case "prefix":
			of.Prefix, ok = text, callForm.MatchString(text)
		case "correlationId":
			of.CorrelationID, ok = text, idForm.MatchString(text)
		default:
			items, _ := inner[field].([]any)
			ok = len(items) >= 1 && len(items) <= 500
			for _, item := range items {
				text, _ := item.(string)
				ok = ok && isCall(text) && !slices.Contains(of.Calls, timer.ServiceCallID(text))
				of.Calls = append(of.Calls, timer.ServiceCallID(text))
			}
		}
	}
	return of, ok && given == 1
}

// referenceReceipt returns a receipt that has what all messages have, or nil.
func referenceReceipt(kind string, top, inner map[string]any, r timer.Receipt) any {
	r.Type = timer.ReceiptType(kind)
	r.CommandID, _ = top["causationId"].(string)
	call := inner["serviceCallId"]
	aggregate, there := top["aggregateId"]
	if call != nil || there || r.Type != timer.TimerRejected {
		text, _ := call.(string)
		if !isCall(text) || there && aggregate != text {
			return nil
		}
		r.ServiceCallID = timer.ServiceCallID(text)
	}
	dueText, _ := inner["dueAt"].(string)
	due, dueOK := referenceTime(dueText)
	reason, reasonOK := inner["reason"].(string)
	detail, detailOK := inner["detail"].(string)
	switch {
	case r.Type == timer.TimerScheduled && dueOK:
		r.DueAt = due
	case r.Type == timer.TimerIgnored && reasonOK:
		r.Reason = timer.Reason(reason)
	case r.Type == timer.TimerRejected && reasonOK && detailOK:
		r.Reason, r.Detail = timer.Reason(reason), detail
	case r.Type != timer.TimerCanceled:
		return nil
	}
	return r
}

// referenceTimers returns the commands of a list, which have all but service call,
// times and data in common, or nil.
func referenceTimers(list any, common timer.ScheduleTimer) any {
	items, _ := list.([]any)
	if len(items) < 1 || len(items) > 500 {
		return nil
	}
	payload := timer.ScheduleTimers{TenantID: common.TenantID, Version: common.Version}
	for _, item := range items {
		object, _ := item.(map[string]any)
		call, _ := object["serviceCallId"].(string)
		text, _ := object["dueAt"].(string)
		due, ok := referenceTime(text)
		data, dataOK := referenceData(object)
		expires, expiresOK := referenceExpiry(object, due)
		ok = ok && expiresOK
		common.ExpiresAt = expires
		common.ServiceCallID, common.DueAt, common.Data = timer.ServiceCallID(call), due, data
		if !ok || !dataOK || !isCall(call) || slices.ContainsFunc(payload.Commands, func(c timer.ScheduleTimer) bool { return c.Key == common.Key }) {
			return nil
		}
		payload.Commands = append(payload.Commands, common)
	}
	return payload
}

// wellFormed returns the object that a body is.
func wellFormed(body []byte) (map[string]any, error) {
	if len(body) > envelope.MaxBytes || !utf8.Valid(body) {
		return nil, errRefused
	}
	// An escaped backslash before a u is no escape.
	escapes := strings.ReplaceAll(string(body), `\\`, `__`)
	if surrogateForm.MatchString(pairForm.ReplaceAllString(escapes, "__")) {
		return nil, errRefused
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	v, err := wellFormedValue(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errRefused
	}
	top, ok := v.(map[string]any)
	if !ok || !json.Valid(body) { // the tokens alone do not show every mistake
		return nil, errRefused
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
		return nil, errRefused
	}
	object, list := map[string]any{}, []any{}
	for d.More() {
		if open == '{' {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			name, ok := key.(string)
			if _, twice := object[name]; twice || !ok {
				return nil, errRefused
			}
			if object[name], err = wellFormedValue(d, depth+1); err != nil {
				return nil, err
			}
			continue
		}
		item, err := wellFormedValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if open == '[' {
		return list, nil
	}
	return object, nil
}

// referenceTime returns the time that s names, rounded up.
func referenceTime(s string) (time.Time, bool) {
	t, finer, ok := referenceClock(s)
	if finer {
		t = t.Add(time.Millisecond)
	}
	return t, ok && 2000 <= t.Year() && t.Year() <= 2200
}

// referenceClock returns the time that s names, cut off after the milliseconds,
// and whether something was cut off.
func referenceClock(s string) (t time.Time, finer, ok bool) {
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
