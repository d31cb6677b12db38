package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// A Clock is the time by which timers fire.
type Clock struct {
	Now  string `json:"now" format:"date-time"`
	Test bool   `json:"test" doc:"It stands still until it is advanced: the service runs with --test-clock."`
}

// A ClockMove counts timers and events while the clock of a test was advanced.
type ClockMove struct {
	Now       string `json:"now" format:"date-time"`
	Reached   int64  `json:"reached" doc:"How many timers fired."`
	Expired   int64  `json:"expired" doc:"How many timers expired."`
	Published int64  `json:"published" doc:"How many events the broker has acknowledged."`
}

type advanceInput struct {
	By string `query:"by" doc:"A duration with a unit." example:"3h"`
	To string `query:"to" doc:"In place of by: RFC 3339 with a zone." example:"2030-01-31T12:00:00Z"`
}

// advanceTimeout ends in time for an answer.
const advanceTimeout = requestTimeout - 5*time.Second

var errNoTest = conflict(http.StatusConflict, "no_test_clock", "the time of this service is real: start one for tests by timer-service serve --test-clock")

// now returns the time by which timers fire.
func (a *actions) now() time.Time {
	if a.Clock != nil {
		return a.Clock.Now()
	}
	return time.Now()
}

func (a *api) clock(context.Context, *struct{}) (*reply[Clock], error) {
	return &reply[Clock]{Clock{stamp(a.now()), a.Clock != nil}}, nil
}

func (a *api) advance(ctx context.Context, in *advanceInput) (*reply[ClockMove], error) {
	to, err := eitherTime(a.now(), "to", in.To, "by", in.By)
	if err == nil && to.IsZero() {
		err = timer.Invalid(timer.ReasonMissingField, "give by or to")
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, advanceTimeout)
	defer cancel()
	var did ClockMove
	err = a.do(ctx, "advance the clock", "", in.By+in.To, func() (string, error) {
		if a.Clock == nil {
			return "", errNoTest
		}
		moved, err := a.Clock.Advance(ctx, to)
		did = ClockMove{stamp(moved.Now), moved.Reached, moved.Expired, moved.Published}
		if err != nil && !moved.Now.IsZero() {
			err = huma.Error503ServiceUnavailable("the clock is not there yet, ask again with to=" + envelope.FormatTime(timer.RoundUp(to)) + ": " + err.Error())
		}
		return did.Now, err
	})
	return &reply[ClockMove]{did}, err
}
