package store

import (
	"fmt"
	"time"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// A Scanner is a row that a database returns.
type Scanner interface{ Scan(columns ...any) error }

// A Text is a column with a text or null, which is empty.
type Text string

// Scan keeps the text.
func (t *Text) Scan(column any) error {
	switch text := column.(type) {
	case nil:
		*t = ""
	case string:
		*t = Text(text)
	default:
		return fmt.Errorf("is %T, want a text", column)
	}
	return nil
}

// A Number is a column with a number or null, which is zero.
type Number int64

// Scan keeps the number.
func (n *Number) Scan(column any) error {
	switch number := column.(type) {
	case nil:
		*n = 0
	case int64:
		*n = Number(number)
	default:
		return fmt.Errorf("is %T, want a number", column)
	}
	return nil
}

// A Time is a column with a time or null, which is the zero time. SQLite has Unix milliseconds,
// PostgreSQL timestamps.
type Time time.Time

// Scan keeps the time, in UTC.
func (t *Time) Scan(column any) error {
	switch at := column.(type) {
	case nil:
		*t = Time{}
	case int64:
		*t = Time(time.UnixMilli(at).UTC())
	case time.Time:
		*t = Time(at.UTC())
	default:
		return fmt.Errorf("is %T, want a time", column)
	}
	return nil
}

// Scan returns a function that reads the only row of a statement.
func Scan(columns ...any) func(Scanner) error {
	return func(row Scanner) error { return row.Scan(columns...) }
}

// Collect returns a function that appends the result of read for each row to a list.
func Collect[T any](list *[]T, read func(Scanner) (T, error)) func(Scanner) error {
	return func(row Scanner) error {
		v, err := read(row)
		*list = append(*list, v)
		return err
	}
}

// ReadEntry reads a timer, in the order of [Columns].
func ReadEntry(row Scanner) (timer.Entry, error) { return ReadEntryAfter(row) }

// ReadEntryAfter is [ReadEntry] after other columns. Columns that are all null are the zero Entry.
func ReadEntryAfter(row Scanner, columns ...any) (e timer.Entry, err error) {
	err = row.Scan(append(columns,
		(*Text)(&e.TenantID), (*Text)(&e.ServiceCallID), (*Number)(&e.TimestampMS), (*Text)(&e.CommandID), (*Text)(&e.State),
		(*Time)(&e.RegisteredAt), (*Time)(&e.DueAt), (*Time)(&e.ExpiresAt), (*Time)(&e.ReachedAt), (*Time)(&e.CanceledAt),
		(*Text)(&e.CorrelationID), (*Text)(&e.Trace.Parent), (*Text)(&e.Trace.State), (*Text)(&e.Data))...)
	if err != nil {
		return e, fmt.Errorf("read a timer: %w", err)
	}
	return e, nil
}

// readTenantCounts reads the counts of a tenant.
func readTenantCounts(row Scanner) (c timer.TenantCounts, err error) {
	err = row.Scan((*string)(&c.TenantID), &c.Scheduled, &c.Reached, &c.Expired, &c.Canceled)
	return c, err
}

// readStats returns a function that reads the counts of all tenants.
func readStats(st *timer.Stats) func(Scanner) error {
	return func(row Scanner) error {
		var first Text // id of the oldest event
		err := row.Scan(&st.Scheduled, &st.Reached, &st.Expired, &st.Canceled, &st.Outbox, (*Time)(&st.NextDue), (*Time)(&st.Oldest), &first, &st.Parked)
		st.DueAt, _ = envelope.DueAt(string(first))
		return err
	}
}

// readFailing reads a destination that takes no events. On PostgreSQL each shard has a row of it.
func readFailing(row Scanner, all *[]timer.FailingDestination) error {
	var f timer.FailingDestination
	err := row.Scan(&f.Destination, &f.Events, (*Time)(&f.Oldest), &f.Reason)
	for i := range *all {
		if other := &(*all)[i]; other.Destination == f.Destination {
			other.Events += f.Events
			if f.Oldest.Before(other.Oldest) {
				other.Oldest = f.Oldest
			}
			return err
		}
	}
	*all = append(*all, f)
	return err
}

// ReadNumber reads the only column of a row.
func ReadNumber(row Scanner) (n int64, err error) {
	err = row.Scan(&n)
	return n, err
}

// readServiceCall reads the only column of a row.
func readServiceCall(row Scanner) (call timer.ServiceCallID, err error) {
	err = row.Scan((*string)(&call))
	return call, err
}

// readDelivery returns a function that reads where an event is. The first row is the event itself; a
// later one says only that there are more.
func readDelivery(found *timer.Delivery) func(Scanner) error {
	found.State = timer.Published
	return func(row Scanner) error {
		var d timer.Delivery
		err := row.Scan((*string)(&d.State), (*Time)(&d.Since), &d.Attempts, &d.Reason, &d.Destination, (*Time)(&d.RetryAt))
		if found.State == timer.Published {
			*found = d
		}
		return err
	}
}

// readPauses returns a function that reads a pause.
func readPauses(all timer.Pauses) func(Scanner) error {
	return func(row Scanner) error {
		var p timer.Pause
		err := row.Scan((*string)(&p.TenantID), (*Time)(&p.Since), (*Time)(&p.Until), &p.By)
		all[p.TenantID] = p
		return err
	}
}

// readDecision reads a decision, with its pause.
func readDecision(row Scanner) (d timer.Decision, err error) {
	err = row.Scan((*string)(&d.TenantID), (*string)(&d.Kind), (*Time)(&d.At), &d.Published, (*Time)(&d.Pause.Since), (*Time)(&d.Pause.Until), (*Text)(&d.Pause.By))
	if d.Pause.Paused() {
		d.Pause.TenantID = d.TenantID
	}
	return d, err
}

// readParked reads an event that is parked.
func readParked(row Scanner) (e timer.ParkedEvent, err error) {
	var headers string
	if err := row.Scan(&e.Seq, &e.ID, &e.Body, &headers, (*Time)(&e.AppendedAt), (*Time)(&e.ParkedAt), &e.Attempts, &e.Reason); err != nil {
		return e, err
	}
	h, err := envelope.DecodeHeaders(headers)
	if err != nil {
		return e, fmt.Errorf("event %d: %w", e.Seq, err)
	}
	e.TenantID, e.ServiceCallID = timer.TenantID(h[envelope.HeaderTenantID]), timer.ServiceCallID(h[envelope.HeaderServiceCallID])
	e.CorrelationID = h[envelope.HeaderCorrelationID]
	return e, nil
}

// readKnown returns a function that reads a number, or that there is none, and whether the
// database is empty except for numbers.
func readKnown(k *timer.Known) func(Scanner) error {
	return func(row Scanner) error {
		var n timer.Number
		err := row.Scan(&k.Empty, (*Text)(&n.Broker), (*Text)(&n.Log), (*Text)(&n.Kind), (*Number)(&n.Number))
		if n.Log != "" {
			k.Numbers = append(k.Numbers, n)
		}
		k.Empty = k.Empty && len(k.Numbers) == 0
		return err
	}
}
