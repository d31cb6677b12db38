package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

const (
	csvHeader = "tenant,call,due" // an optional first line
	fileForms = "tenant,call,due or {\"tenantId\":…,\"serviceCallId\":…,\"dueAt\":…,\"expiresAt\":…,\"data\":…}"
)

// runFile makes a service publish a ScheduleTimer for each timer of a file.
func (s *scheduleCmd) runFile(ctx context.Context, e *env) error {
	return sendFile(ctx, e, "schedule", s.File, "timers", "schedule it", func(s *sender, lines fileLines) error {
		return s.sendAll(ctx, lines, func(l line) ([]byte, error) {
			if l.number == 1 && strings.ReplaceAll(string(l.body), `"`, "") == csvHeader {
				return nil, nil
			}
			t, err := parseTimer(l)
			if err != nil {
				return nil, err
			}
			c, err := t.Command(e.now())
			return envelope.Schedule(c), err
		})
	})
}

// parseTimer returns the timer of a line.
func parseTimer(l line) (t client.Timer, err error) {
	var fields struct {
		timer.Key
		DueAt     string
		ExpiresAt string
		Data      json.RawMessage
	}
	if l.body[0] == '{' {
		err = json.Unmarshal(l.body, &fields)
	} else {
		r := csv.NewReader(bytes.NewReader(l.body))
		r.FieldsPerRecord, r.TrimLeadingSpace = 3, true
		var parts []string
		if parts, err = r.Read(); err == nil {
			fields.TenantID, fields.ServiceCallID = timer.TenantID(strings.TrimSpace(parts[0])), timer.ServiceCallID(strings.TrimSpace(parts[1]))
			fields.DueAt = strings.TrimSpace(parts[2])
		}
	}
	if err != nil {
		return t, fmt.Errorf("is not %s", fileForms)
	}
	t = client.Timer{TenantID: fields.TenantID, ServiceCallID: fields.ServiceCallID, Data: fields.Data}
	if t.DueAt, err = envelope.ParseTime(fields.DueAt); err == nil && fields.ExpiresAt != "" {
		t.ExpiresAt, err = envelope.ParseTimeOf("expiresAt", fields.ExpiresAt)
	}
	return t, err
}
