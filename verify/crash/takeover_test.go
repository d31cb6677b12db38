package crash

import (
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/verify/crash/history"
)

// atMS is so many milliseconds after an hour that does not matter.
func atMS(ms int) time.Time {
	return time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(ms) * time.Millisecond)
}

func fire(due, at int, accepted bool) history.Fire {
	return history.Fire{Due: atMS(due), At: atMS(at), Accepted: accepted}
}

func TestTakeover(t *testing.T) {
	t.Parallel()
	a, b := &instance{number: 1}, &instance{number: 2}
	a.up = []history.Span{{From: atMS(0), To: atMS(10_000)}, {From: atMS(11_000), To: atMS(30_000)}}
	b.up = []history.Span{{From: atMS(0), To: atMS(20_500)}}
	fires := []history.Fire{ // by when the events came
		fire(5_000, 5_001, true),
		fire(10_020, 10_030, true),
		fire(9_900, 10_600, true),   // was marked by a, and sent by b
		fire(10_050, 13_000, false), // was on its way to a when that was killed
		fire(20_900, 20_950, true),
		fire(20_100, 21_000, true),
		fire(29_900, 30_300, true),
	}
	r := &run{instances: []*instance{a, b}, done: []fault{
		{at: atMS(10_000), over: atMS(10_000), hit: a},
		{at: atMS(20_500), over: atMS(20_500), hit: b},
		{at: atMS(30_000), over: atMS(30_000), hit: a}, // while no other was up
	}}
	got := r.takeover(fires)
	if got.Alone != 1 || got.Next.Count != 2 || got.Gap.Count != 2 {
		t.Fatalf("%+v", got)
	}
	if got.Next.P50MS != 30 || got.Next.MaxMS != 450 {
		t.Errorf("next event after %v and %v ms, want 30 and 450", got.Next.P50MS, got.Next.MaxMS)
	}
	if got.Gap.P50MS != 700 || got.Gap.MaxMS != 900 {
		t.Errorf("the latest were %v and %v ms late, want 700 and 900", got.Gap.P50MS, got.Gap.MaxMS)
	}

	// A server that is hit belongs to no instance, and counts from when it is back.
	r.done = []fault{{at: atMS(9_000), over: atMS(10_000)}}
	if got = r.takeover(fires); got.Next.Count != 1 || got.Next.MaxMS != 30 || got.Gap.Count != 0 {
		t.Errorf("after a fault at a server: %+v", got)
	}

	// A single instance has no other to take over.
	r.instances, r.done = r.instances[:1], []fault{{at: atMS(10_000), over: atMS(10_000), hit: a}}
	if got = r.takeover(fires); got.Next.Count != 1 || got.Alone != 0 || got.Gap.Count != 0 {
		t.Errorf("of one alone: %+v", got)
	}
}

func TestWrongOptions(t *testing.T) {
	t.Parallel()
	for name, opt := range map[string]Options{
		"a store that there is not":       {Store: "stone"},
		"a URL for a file":                {StoreURL: "postgres://localhost/"},
		"several instances on a file":     {Instances: 2},
		"a file that goes away":           {Mode: StoreGone},
		"several with an embedded broker": {Store: Postgres, Instances: 2, Mode: Embedded},
		"several at a step":               {Store: Postgres, Instances: 2, Mode: Step},
		"a broker that can't be killed":   {Broker: Kafka, Mode: Broker},
		"a broker that there is not":      {Broker: "smoke"},
	} {
		if err := opt.Check(); err == nil {
			t.Errorf("%s works", name)
		}
		if _, err := Run(t.Context(), opt); err == nil {
			t.Errorf("%s runs", name)
		}
	}
	for _, mode := range Modes {
		opt := Options{Store: Postgres, Mode: mode}
		if err := opt.Check(); err != nil {
			t.Errorf("mode %s of one instance: %v", mode, err)
		}
		opt.Instances = 3
		if err := opt.Check(); err != nil && mode != Embedded && mode != Step {
			t.Errorf("mode %s of three instances: %v", mode, err)
		}
	}
}
