package timertest

import (
	"cmp"
	"context"
	"fmt"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// read returns the database for reading, whether the service runs or not.
func (s *Service) read() *sqlite.Reader {
	s.t.Helper()
	switch {
	case s.reader != nil:
	case s.opt.db != nil:
		s.reader = sqlite.New(s.opt.db, sqlite.Options{}).Reader // which the test closes
	default:
		r, err := sqlite.OpenReader(context.Background(), s.path())
		if err != nil {
			s.t.Fatal("read the timers: ", err)
		}
		s.t.Cleanup(func() { _ = r.Close() })
		s.reader = r
	}
	return s.reader
}

// Due returns the timers that wait, of all tenants, soonest first. It reads the
// database, also while the service does not run.
func (s *Service) Due() []timer.Entry {
	s.t.Helper()
	return s.list(timer.Filter{DueBefore: time.Date(2201, 1, 1, 0, 0, 0, 0, time.UTC)}) // no timer may be due as late
}

// Timers returns all timers of a tenant by service call, including timers that are Reached
// or Canceled and not purged yet. It reads the database, also while the service does
// not run.
func (s *Service) Timers(tenant timer.TenantID) []timer.Entry {
	s.t.Helper()
	return s.list(timer.Filter{TenantID: tenant})
}

// list returns all timers that match a filter.
func (s *Service) list(f timer.Filter) (all []timer.Entry) {
	s.t.Helper()
	f.Limit = timer.MaxPage
	if err := timer.EachPage(context.Background(), &f, s.read().List, func(entries []timer.Entry) error {
		all = append(all, entries...)
		return nil
	}); err != nil {
		s.t.Fatal("list timers: ", err)
	}
	return all
}

const (
	idleLimit = time.Hour        // of fake time, for work that takes some
	minStep   = time.Millisecond // between two looks, or a part of the time so far, if that is longer
	stepPart  = 32
	askLimit  = time.Second // of fake time, for the answer of the broker
)

// AwaitIdle returns when the service has nothing to do: each command that was
// published is applied and acked, due timers have fired, and each event is
// published. All goroutines of the bubble wait then, so handlers of the code under
// test have done all work that takes no time. Time passes as far as something takes it: some
// milliseconds for acks, more for a retry or until the end of [Service.BrokerDown].
// After an hour the test fails, and names the work that is left.
func (s *Service) AwaitIdle() {
	s.t.Helper()
	for began := time.Now(); ; time.Sleep(max(minStep, (time.Since(began) / stepPart).Truncate(minStep))) {
		p := s.running()
		if p == nil {
			s.t.Fatal("the timer service does not run: call Restart before AwaitIdle")
		}
		left := s.left(p)
		if left == "" {
			synctest.Wait()
			return
		}
		if time.Since(began) > idleLimit {
			s.t.Fatalf("the timer service is not idle after %v: %s%s", idleLimit, left, reasons(p.app))
		}
	}
}

// reasons returns the reasons of the poller, and of the forwarder with its handlers.
func reasons(a *app.App) (all string) {
	for _, c := range a.Checks(context.Background()) {
		if c.Reason != "" && (c.Part == "poller" || c.Part == "forwarder") {
			all += "; " + c.Part + ": " + c.Reason
		}
	}
	if at := a.Status().Forwarder.Longest; at != "" {
		all += "; " + at
	}
	return all
}

// left says why the service is not idle, "" if it is.
func (s *Service) left(p *process) string {
	synctest.Wait()
	if isClosed(p.ended) {
		s.t.Fatal("the timer service has ended: ", p.err)
	}
	if s.outage.away() {
		return "the broker is down"
	}
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	if err := p.link.CatchUp(ctx, s.opt.app.Role); err != nil {
		return fmt.Sprintf("commands wait at the broker: %v", err)
	}
	synctest.Wait()
	if n := s.open.count(); n > 0 {
		return fmt.Sprintf("%d commands are not acked", n)
	}
	stats, err := s.read().Stats(ctx, "")
	retry, failed := p.app.NextEvent(ctx)
	switch {
	case err != nil || failed != nil:
		return fmt.Sprintf("the database does not answer: %v", cmp.Or(err, failed))
	case !stats.Oldest.IsZero() || !retry.IsZero() && !retry.After(time.Now()): // a handler may want the others later
		return fmt.Sprintf("%d events are not published", stats.Outbox)
	case !stats.NextDue.IsZero() && !stats.NextDue.After(time.Now()):
		return fmt.Sprintf("the timer that is due at %v has not fired", stats.NextDue)
	}
	return ""
}
