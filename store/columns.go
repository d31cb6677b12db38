package store

import (
	"regexp"
	"strings"
)

// decided are the columns with the key, the version, the state and the times of a timer.
// traveling are the columns that go from the command to the event unchanged. Both stores
// read and write all of them in this order, and a new column is named here.
const (
	decided   = "tenant_id, service_call_id, command_at, command_id, state, registered_at, due_at, expires_at, reached_at, canceled_at"
	traveling = "correlation_id, traceparent, tracestate, data"
)

// waiting are the columns of a message in the inbox, as [ReadInboxMessage] reads them, but for
// the last one, which is retry_at.
const waiting = "seq, tenant_id, log, number, topic, position, message_id, headers, body, arrived_at, reason, attempts, last_error"

// Columns returns the text of a statement with the columns of a timer where it names them:
//
//	{columns}              all of them
//	{s.columns}            all of them, of the table s
//	{traveling}            the columns that travel with a timer
//	{traveling = c.}       each of these set to the one of the table c
//	{traveling text}       each of these with its type
//	{values}               a placeholder for each of all columns
//	{inbox}                all columns of a message in the inbox
//	{i.inbox}              all but retry_at, of the table i
func Columns(text string) string {
	all := decided + ", " + traveling
	return strings.NewReplacer(
		"{columns}", all,
		"{s.columns}", each(all, "s.", ""),
		"{traveling}", traveling,
		"{traveling = c.}", assigned("c"),
		"{traveling = excluded.}", assigned("excluded"),
		"{traveling text}", each(traveling, "", " text"),
		"{inbox}", waiting+", retry_at",
		"{i.inbox}", each(waiting, "i.", ""),
		"{values}", "?"+strings.Repeat(", ?", strings.Count(all, ",")),
	).Replace(text)
}

// each puts a text before and one behind each column of a list.
func each(list, before, behind string) string {
	return before + strings.ReplaceAll(list, ", ", behind+", "+before) + behind
}

// assigned sets the columns that travel to those of a table.
func assigned(from string) string {
	columns := strings.Split(traveling, ", ")
	for i, c := range columns {
		columns[i] = c + " = " + from + "." + c
	}
	return strings.Join(columns, ", ")
}

// An OutboxStatement does the same on each table of the outbox.
type OutboxStatement struct {
	Head     string // on events to be sent
	Deferred string // on events that are deferred
}

// On returns the one for a table.
func (s OutboxStatement) On(deferred bool) string {
	if deferred {
		return s.Deferred
	}
	return s.Head
}

// head is the name of the table of events to be sent.
var head = regexp.MustCompile(`\btimer_outbox\b`)

// OnBoth returns a statement on the table of events to be sent, and the same on that of deferred
// events.
func OnBoth(text string) OutboxStatement {
	return OutboxStatement{Head: text, Deferred: head.ReplaceAllString(text, "timer_outbox_deferred")}
}

// Printable returns an error text of a broker as text that all databases can hold.
func Printable(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
