package admin

import (
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// An Owner is the tenant of dead letters or messages, or [timer.NoTenant].
type Owner timer.TenantID

// Validate refuses a value that names no tenant.
func (o Owner) Validate() error { return broker.ValidateVisit(timer.TenantID(o)) }

// An OwnerQuery may narrow an answer to a tenant, or to what belongs to none.
type OwnerQuery struct {
	Tenant Owner `query:"tenant" maxLength:"64" pattern:"^(_|[A-Za-z0-9][A-Za-z0-9_-]*)$" example:"acme" doc:"Only those of this tenant; _ for no valid tenant."`
}

// Resolve narrows the query to the only tenant that the request may see, if it may not see all.
func (q *OwnerQuery) Resolve(ctx huma.Context) []error { return narrow(ctx, &q.Tenant) }

// A TenantQuery may narrow an answer to a tenant.
type TenantQuery struct {
	Tenant timer.TenantID `query:"tenant" maxLength:"64" pattern:"^[A-Za-z0-9][A-Za-z0-9_-]*$" doc:"Only what belongs to this tenant." example:"acme"`
}

// Resolve narrows the query to the only tenant that the request may see, if it may not see all.
func (q *TenantQuery) Resolve(ctx huma.Context) []error { return narrow(ctx, &q.Tenant) }

// narrow sets a tenant to [only] what a request is about.
func narrow[T ~string](ctx huma.Context, tenant *T) []error {
	its, err := only(ctx.Context(), string(*tenant))
	if *tenant = T(its); err != nil {
		return []error{err}
	}
	return nil
}

// A Moment is a time of a query: RFC 3339 with a zone, or a duration from now on. It is zero if it
// is left out.
type Moment struct {
	time.Time
	from *time.Duration // from now on; nil if a time was given
}

// UnmarshalText reads a time or a duration.
func (m *Moment) UnmarshalText(text []byte) (err error) {
	*m, err = readTime(string(text), 1)
	return err
}

// At returns the time by a clock, which may be that of a test.
func (m Moment) At(now time.Time) time.Time {
	if m.from != nil {
		return now.Add(*m.from)
	}
	return m.Time
}

// String returns the time as messages carry it, or "" for zero.
func (m Moment) String() string { return stamp(timer.RoundUp(m.Time)) }

// A Since is a time of a query: RFC 3339 with a zone, or a duration that ends now.
type Since struct{ Moment }

// UnmarshalText reads a time or a duration.
func (s *Since) UnmarshalText(text []byte) (err error) {
	s.Moment, err = readTime(string(text), -1)
	return err
}

// readTime reads a time, or a duration that is added to now or, with -1, taken from it. A query
// decodes a plus before the offset as a space, so a space there is read as a plus.
func readTime(text string, direction time.Duration) (Moment, error) {
	if d, err := config.ParseWithUnit(text); err == nil {
		d *= direction
		return Moment{time.Now().Add(d), &d}, nil
	}
	if i := len(text) - len(" 01:00"); i > 0 && text[i] == ' ' {
		text = text[:i] + "+" + text[i+1:]
	}
	at, err := envelope.ParseTime(text)
	if err != nil {
		err = timer.Invalid(timer.ReasonBadField, "must be a duration such as 90m or 7d, or a time such as 2030-01-31T12:00:00Z: %s", explain(err))
	}
	return Moment{Time: at}, err
}
