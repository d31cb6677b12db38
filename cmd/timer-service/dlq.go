package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/deadletter"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

type dlqCmd struct {
	List    dlqListCmd    `cmd:"" help:"List dead letters, oldest first."`
	Show    dlqShowCmd    `cmd:"" help:"Show dead letters with their bodies."`
	Replay  dlqReplayCmd  `cmd:"" help:"Publish the originals of dead letters once more."`
	Discard dlqDiscardCmd `cmd:"" help:"Remove dead letters for good."`
}

// errNoLetter says that there is no dead letter of an id.
var errNoLetter = errors.New("no such dead letter")

// A moment is a flag that takes a time, or how long ago that was.
type moment struct {
	ago time.Duration
	at  time.Time // zero if ago counts
}

// UnmarshalText reads RFC 3339 with a zone, or a duration.
func (m *moment) UnmarshalText(text []byte) error {
	if ago, err := config.ParseDuration(string(text)); err == nil && ago >= 0 {
		m.ago = ago
		return nil
	}
	at, err := envelope.ParseTime(string(text))
	if err != nil {
		return fmt.Errorf("must be a duration such as 90m or 7d, or a time such as 2030-01-31T12:00:00Z, not %s", timer.Quote(string(text)))
	}
	m.at = at
	return nil
}

// before returns the time that is meant, if it is now now.
func (m *moment) before(now time.Time) time.Time {
	if m == nil {
		return time.Time{}
	}
	if m.at.IsZero() {
		return now.Add(-m.ago)
	}
	return m.at
}

// A letterFilter are the flags that say which letters are meant.
type letterFilter struct {
	Tenant string   `placeholder:"TENANT" help:"Only those of a tenant; _ for those that name no valid one."`
	Reason []string `placeholder:"REASON" help:"Only those with this reason, such as beyond_horizon, or one of several with commas between them."`
	Since  *moment  `placeholder:"7d" help:"Only those that became dead letters in this last while, or since a time in RFC 3339."`
	ID     []string `name:"id" placeholder:"ID" help:"Only those with this id, or one of several with commas between them."`
}

// filter returns what is meant, if that makes sense. IDs are those given without
// a flag.
func (l *letterFilter) filter(e *env, verb string, ids []string, limit int) (deadletter.Filter, error) {
	f := deadletter.Filter{
		Tenant: timer.TenantID(l.Tenant),
		IDs:    append(append([]string(nil), ids...), l.ID...),
		Since:  l.Since.before(e.now()),
		Limit:  limit,
	}
	for _, reason := range l.Reason {
		f.Reasons = append(f.Reasons, timer.Reason(reason))
	}
	if err := broker.ValidateVisit(f.Tenant); err != nil {
		return f, wrong(verb, "--tenant: %s", detail(err))
	}
	if limit < 0 {
		return f, wrong(verb, "--limit must not be negative; 0 is all")
	}
	return f, nil
}

// some reports whether any flag or id says which letters are meant.
func some(f deadletter.Filter) bool {
	return f.Tenant != "" || len(f.IDs) > 0 || len(f.Reasons) > 0 || !f.Since.IsZero()
}

// withLetters connects with the broker, lets do work on its dead letters, and
// disconnects. The broker outlives ctx, so that what is half done can be ended.
func withLetters(ctx context.Context, e *env, verb string, do func(*deadletter.Office) (deadletter.Summary, error)) error {
	c, err := connectLasting(ctx, e, verb)
	if err != nil {
		return err
	}
	defer c.close()
	sum, err := do(deadletter.New(c.Broker))
	return outcome(verb, sum, err)
}

// outcome returns what is to be said of work that is over, or nil.
func outcome(verb string, sum deadletter.Summary, err error) error {
	switch {
	case errors.Is(err, broker.ErrNameTenant):
		return wrong(verb, "%w with --tenant", err)
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("interrupted; the other letters are where they were: %w", err)
	case err != nil:
		return err
	case len(sum.Missing) > 0:
		for i, id := range sum.Missing {
			sum.Missing[i] = timer.Quote(id)
		}
		return fmt.Errorf("%w: %s", errNoLetter, strings.Join(sum.Missing, ", "))
	}
	return nil
}

// A shownLetter is a dead letter as it is printed.
type shownLetter struct {
	ID            string         `json:"id"`
	TenantID      timer.TenantID `json:"tenantId"`
	Reason        timer.Reason   `json:"reason,omitempty"`
	Detail        string         `json:"detail,omitempty"`
	Topic         string         `json:"topic,omitempty"`
	Position      string         `json:"position,omitempty"`
	OriginalID    string         `json:"originalId,omitempty"`
	FirstAt       stamp          `json:"firstAt,omitzero"`
	LastAt        stamp          `json:"lastAt,omitzero"`
	Count         int            `json:"count"`
	Replays       int            `json:"replays"`
	Truncated     bool           `json:"truncated,omitempty"`
	CorrelationID string         `json:"correlationId,omitempty"`
	shownBody
}

func showLetter(l deadletter.Letter) *shownLetter {
	return &shownLetter{
		ID:            l.ID,
		TenantID:      l.Tenant,
		Reason:        l.Reason,
		Detail:        l.Detail,
		Topic:         l.Topic,
		Position:      l.Position,
		OriginalID:    l.OriginalID,
		FirstAt:       stamp(l.FirstAt),
		LastAt:        stamp(l.LastAt),
		Count:         l.Count,
		Replays:       l.Replays,
		Truncated:     l.Truncated,
		CorrelationID: l.CorrelationID,
		shownBody:     showBody(l.Body),
	}
}

func (s *shownLetter) text() string {
	var b strings.Builder
	line := func(name, value string) { fmt.Fprintf(&b, "%-14s %s\n", name, printable(orDash(value))) }
	line("id", s.ID)
	line("tenant", string(s.TenantID))
	line("reason", string(s.Reason))
	line("detail", s.Detail)
	line("topic", s.Topic)
	line("position", s.Position)
	line("original", s.OriginalID)
	line("first at", s.FirstAt.String())
	line("last at", s.LastAt.String())
	line("count", strconv.Itoa(s.Count))
	line("replays", strconv.Itoa(s.Replays))
	line("correlation", s.CorrelationID)
	kind := s.kind()
	if s.Truncated {
		kind += ", cut: not the original"
	}
	line("body", kind)
	b.WriteString(s.shownBody.text())
	return strings.TrimSuffix(b.String(), "\n")
}
