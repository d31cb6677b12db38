package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/timer"
)

func (s *suite) decide(d timer.Decision) {
	s.Helper()
	s.must(s.store.Decide(s.Context(), d))
}

func (s *suite) decisions() []timer.Decision {
	s.Helper()
	all, err := s.store.Decisions(s.Context())
	s.must(err)
	return all
}

func decisions(s *suite) {
	s.same("at first", s.decisions(), []timer.Decision(nil))
	p := timer.Pause{TenantID: "acme", Since: noon, Until: noon.Add(time.Hour), By: "ann"}
	paused := timer.Decision{TenantID: "acme", Kind: timer.DecidedFiring, Pause: p, At: noon}
	forgotten := timer.Decision{TenantID: "acme", Kind: timer.DecidedForgotten, At: noon.Add(time.Minute)}
	all := timer.Decision{Kind: timer.DecidedFiring, At: noon}
	s.decide(timer.Decision{TenantID: "acme", Kind: timer.DecidedFiring, Pause: p, At: noon.Add(time.Microsecond)})
	s.decide(forgotten)
	s.decide(all)
	s.same("one of each tenant and kind", s.decisions(), []timer.Decision{all, paused, forgotten})
	s.same("a tenant that is forgotten stays paused", s.firing(noon), timer.Pauses{"acme": p})

	again := timer.Decision{TenantID: "acme", Kind: timer.DecidedFiring, Pause: timer.Pause{Since: noon.Add(time.Minute), By: "bob"}, At: noon.Add(time.Minute)}
	s.decide(again)
	again.Pause = timer.Pause{TenantID: "acme", Since: noon, By: "ann"}
	s.same("to pause again moves the end", s.decisions()[1], again)

	s.decide(timer.Decision{TenantID: "acme", Kind: timer.DecidedFiring, At: noon}) // by a clock that is behind
	s.same("resumed", s.decisions()[1], timer.Decision{TenantID: "acme", Kind: timer.DecidedFiring, At: noon.Add(time.Minute + time.Millisecond)})
	s.same("firing", s.firing(noon), timer.Pauses{})
	if err := s.store.Decide(s.Context(), timer.Decision{TenantID: "acme", Kind: timer.DecidedForgotten}); !errors.Is(err, timer.ErrInvalid) {
		s.Errorf("a decision without a time: %v", err)
	}
}

func decisionsRead(s *suite) {
	read := func(by string, since, at time.Time) timer.Decision {
		d := timer.Decision{TenantID: "acme", Kind: timer.DecidedFiring, At: at, Published: true}
		if by != "" {
			d.Pause = timer.Pause{TenantID: "acme", Since: since, By: by}
		}
		return d
	}
	first := read("ann", noon, noon.Add(time.Minute))
	s.decide(first)
	s.same("the first", s.decisions(), []timer.Decision{first})
	for _, older := range []timer.Decision{read("", noon, noon), read("", noon, first.At), read("bob", noon, first.At)} {
		s.decide(older)
		s.same("one that is not newer", s.decisions(), []timer.Decision{first})
	}
	newer := read("bob", noon.Add(30*time.Second), noon.Add(time.Hour))
	s.decide(newer)
	s.same("a newer one has the whole pause", s.decisions(), []timer.Decision{newer})
	s.pause(timer.Pause{TenantID: "beta", Since: noon.Add(time.Hour), By: "ann"})
	s.decide(timer.Decision{TenantID: "beta", Kind: timer.DecidedFiring, At: noon.Add(time.Minute), Published: true})
	s.same("an older one does not resume", s.firing(noon)["beta"].By, "ann")
	s.same("and the mark of this one is still to be published", s.decisions()[1].Published, false)
	s.resume("acme")
	s.same("what is decided now counts, whatever its time", s.firing(far)["acme"], timer.Pause{})
}

func decisionsPublished(s *suite) {
	s.pause(timer.Pause{TenantID: "acme", Since: noon, By: "ann"})
	paused := s.decisions()[0]
	s.resume("acme")
	s.must(s.store.MarkPublished(s.Context(), paused))
	resumed := s.decisions()[0]
	s.same("a later one", resumed.Published, false)
	for range 2 {
		s.must(s.store.MarkPublished(s.Context(), resumed))
		s.same("published", s.decisions()[0].Published, true)
	}
	s.must(s.store.MarkPublished(s.Context(), timer.Decision{TenantID: "beta", Kind: timer.DecidedForgotten, At: noon}))
	s.same("one that is not there", len(s.decisions()), 1)
}

func forgetUntil(s *suite) {
	for i, at := range []time.Time{noon.Add(-time.Hour), noon, noon.Add(time.Millisecond)} {
		for _, tenant := range []timer.TenantID{"acme", "beta"} {
			_, err := s.store.Schedule(s.Context(), at, schedule(key(tenant, timer.ServiceCallID(fmt.Sprint("call-", i))), 1, noon.Add(24*time.Hour)))
			s.must(err)
			for n := range 3 { // that wait, are deferred, are parked
				e := event(10*i + n)
				e.TenantID, e.ReachedAt = tenant, at
				s.emit(e)
				row := s.head(0, 100)
				last := row[len(row)-1]
				switch n {
				case 1:
					s.must(s.store.Defer(s.Context(), outbox.Deferral{Place: last.Place, Destination: "svc", Reason: "away", RetryAt: at}))
				case 2:
					s.must(s.store.Park(s.Context(), at, last.Place, "refused"))
				}
			}
		}
	}
	until := noon.Add(time.Microsecond)
	var sum timer.Counts
	for {
		c, err := s.store.Forget(s.Context(), "acme", until, 1)
		s.must(err)
		if sum = sum.Add(c); c.Total() == 0 {
			break
		}
	}
	s.same("forgotten", sum, timer.Counts{Scheduled: 2})
	s.same("left of the tenant", s.get(key("acme", "call-2")).State, timer.Scheduled)
	s.same("parked of the tenant", len(s.parked("acme", 0, 10)), 1)
	s.same("parked of another", len(s.parked("beta", 0, 10)), 3)
	st := s.stats()
	s.same("timers, events and parked events", []int64{st.Scheduled, st.Outbox, st.Parked}, []int64{4, 8, 4})
	s.same("events that wait", len(s.head(0, 100)), 4)
}
