package app_test

import (
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/internal/longtest"
	"github.com/event-service-agent/timer-service/timer"
)

var (
	daysSeed  = flag.Uint64("days.seed", 0, "of TestDays; 0 takes one from the clock")
	daysCount = flag.Int("days.count", 1, "how many days TestDays lasts")
)

const (
	keep       = 3 * 24 * time.Hour // retention of the app
	touchable  = 24 * time.Hour     // how long after it may be over a timer gets messages; less than keep, by more than a clock is wrong
	maxWrong   = 12 * time.Hour     // of a clock that is set wrong
	maxDrift   = 45 * time.Second   // of a clock that is right, more or less; the guard lets that pass
	maxDue     = 14 * 24 * time.Hour
	maxPause   = 20 * time.Minute // between two steps
	daysTenant = 20
)

// TestDays runs the whole app for days of simulated time (task verify: a month) in which one call
// in twenty fails, of every operation, before or after it takes effect. The
// process crashes in the middle of things, is restarted and suspended, its
// clock is set wrong and right again, its database and its broker are down for
// minutes. Timers of twenty tenants are scheduled, moved, canceled, resent and
// forgotten, among stale commands and poison. Every promise must hold at every
// step, and at the end nothing is lost.
//
// The seed decides what happens, but not the order of what happens at once.
func TestDays(t *testing.T) {
	t.Parallel()
	longtest.NotShort(t)
	seed, days := *daysSeed, *daysCount
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("the same again: go test ./app -run '^TestDays$' -days.seed=%d -days.count=%d", seed, days)
	if _, err := migrated(); err != nil { // not in a bubble, which its goroutines would outlive
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(48 * time.Hour) // bubbles begin with the year 2000, before which nothing may be due
		m := newMonth(t, seed, days)
		m.start()
		defer m.stop()
		if err := m.live(); err != nil {
			t.Errorf("on day %.1f: %v", m.now().Sub(m.began).Hours()/24, err)
		}
		t.Log(m.report())
	})
}

// A month is a world with people in it.
type month struct {
	*world
	rng        *rand.Rand
	began, end time.Time
	rightAgain time.Time // when a clock that is set wrong is set right; zero while it is right
	upAgain    time.Time // when an outage ends; zero while there is none
	open       []*call   // those that still get messages
	sequence   int
	count      map[string]int // what happened, by name
}

// A call is what is known of a timer by those who schedule it.
type call struct {
	timer.Key
	over time.Time // when it is reached or canceled, at the earliest
	sent []sentCommand
}

func newMonth(t *testing.T, seed uint64, days int) *month {
	m := &month{
		world: newWorld(t, seed, 20, app.Options{PollingInterval: time.Minute, Retention: keep}),
		rng:   rand.New(rand.NewPCG(seed, 3)), count: make(map[string]int),
	}
	m.failures.crashIn = 1500
	m.broker.now = m.now
	m.broker.refuses = refusal()
	m.ahead = time.Minute
	m.began = m.now()
	m.end = m.began.Add(time.Duration(days) * 24 * time.Hour)
	return m
}

// live goes through the days, then lets everything heal and settle.
func (m *month) live() error {
	for m.now().Before(m.end) {
		m.happen()
		for pause := m.upTo(maxPause); pause > 0; pause -= time.Minute {
			time.Sleep(min(pause, time.Minute))
			synctest.Wait()
			m.revive()
		}
		if err := m.invariants(); err != nil {
			return err
		}
	}
	m.step(0)
	return m.settle(6 * time.Hour)
}

// happen does what happens in a moment: to the machine, and by people.
func (m *month) happen() {
	m.machine()
	for range 1 + m.rng.IntN(8) {
		m.sequence++
		choice := m.rng.IntN(100)
		c := m.known()
		switch {
		case choice < 5:
			m.count["poison"]++
			m.sendPoison(name("poison-", m.sequence), m.rng.IntN(len(poisonous)))
		case choice < 50 || c == nil:
			m.create()
		case choice < 65:
			m.move(c, m.now().UnixMilli())
		case choice < 75:
			m.takeBack(c, m.now().UnixMilli())
		case choice < 90: // older than the last one
			m.count["stale"]++
			at := c.sent[m.rng.IntN(len(c.sent))].version().TimestampMS - 1
			if m.rng.IntN(2) == 0 {
				m.move(c, at)
			} else {
				m.takeBack(c, at)
			}
		default:
			m.count["resent"]++
			m.broker.resend(c.sent[m.rng.IntN(len(c.sent))].simCommand)
		}
	}
}

// machine does what happens to the machine and to what the app stands on.
func (m *month) machine() {
	now := m.now()
	if !m.rightAgain.IsZero() && now.After(m.rightAgain) {
		m.rightAgain = time.Time{}
		m.step(0)
	}
	if !m.upAgain.IsZero() && now.After(m.upAgain) {
		m.upAgain = time.Time{}
		m.failures.outage()
	}
	right := m.rightAgain.IsZero()
	switch choice := m.rng.IntN(1000); {
	case choice < 10 && right:
		m.count["jump forward"]++
		m.step(10*time.Minute + m.upTo(maxWrong-10*time.Minute))
		m.rightAgain = now.Add(m.upTo(2 * time.Hour))
	case choice < 20 && right:
		m.count["jump back"]++
		m.step(-m.upTo(maxWrong))
		m.rightAgain = now.Add(m.upTo(2 * time.Hour))
	case choice < 60 && right:
		m.count["small step"]++
		m.step(m.upTo(2*maxDrift) - maxDrift)
	case choice < 65:
		m.count["suspend"]++
		m.suspend(m.upTo(8 * time.Hour))
	case choice < 75:
		m.count["clean restart"]++
		m.stop()
		m.world.start()
	case choice < 80 && m.upAgain.IsZero():
		m.count["outage of the broker"]++
		m.failures.outage("publish")
		m.upAgain = now.Add(m.upTo(30 * time.Minute))
	case choice < 85 && m.upAgain.IsZero():
		m.count["outage of the store"]++
		m.failures.outage(storeOps...)
		m.upAgain = now.Add(m.upTo(30 * time.Minute))
	}
}

// create schedules a new timer. The broker refuses one in fifty for good, and
// one in fifty a few times.
func (m *month) create() {
	kind := "call-"
	switch m.rng.IntN(50) {
	case 0:
		kind = refusedPrefix
	case 1:
		kind = flakyPrefix
	}
	m.count["timers"]++
	c := &call{Key: timer.Key{
		TenantID:      timer.TenantID(name("tenant-", m.rng.IntN(daysTenant))),
		ServiceCallID: timer.ServiceCallID(name(kind, m.sequence)),
	}}
	m.move(c, m.now().UnixMilli())
	if kind != refusedPrefix {
		m.open = append(m.open, c)
	}
}

// known returns a timer that may still get messages, or nil.
func (m *month) known() *call {
	for len(m.open) > 0 {
		i := m.rng.IntN(len(m.open))
		if c := m.open[i]; m.now().Before(c.over.Add(touchable)) {
			return c
		}
		m.open = slices.Delete(m.open, i, i+1)
	}
	return nil
}

func (m *month) move(c *call, at int64) {
	m.count["schedules"]++
	due := timer.RoundUp(m.now().Add(m.due()))
	if m.lastDue.After(m.now()) && m.rng.IntN(10) == 0 {
		due = m.lastDue.Add(time.Millisecond)
	}
	m.schedule(timer.ScheduleTimer{Key: c.Key, Version: m.version(at), DueAt: due, CorrelationID: name("trace-", m.sequence)})
	m.note(c, due)
}

func (m *month) takeBack(c *call, at int64) {
	m.count["cancels"]++
	m.cancel(timer.CancelTimer{Key: c.Key, Version: m.version(at)})
	m.note(c, m.now())
}

func (m *month) note(c *call, over time.Time) {
	if len(c.sent) == 0 || over.Before(c.over) {
		c.over = over
	}
	c.sent = append(c.sent, m.sent[len(m.sent)-1])
}

func (m *month) version(at int64) timer.Version {
	return timer.Version{TimestampMS: at, CommandID: name("command-", m.sequence)}
}

// due is when a timer fires from now: after seconds as often as after days, and
// not after the end; one in twenty is overdue.
func (m *month) due() time.Duration {
	if m.rng.IntN(20) == 0 {
		return -m.upTo(time.Hour)
	}
	longest := max(min(maxDue, m.end.Sub(m.now())), time.Minute)
	return time.Duration(math.Exp(m.rng.Float64()*math.Log(longest.Seconds())) * float64(time.Second))
}

func (m *month) upTo(longest time.Duration) time.Duration {
	return time.Duration(1 + m.rng.Int64N(int64(longest)))
}

func (m *month) report() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%.1f days, %d crashes, %d events published, %d of them again, %d timers fired, %d dead letters of %d",
		m.now().Sub(m.began).Hours()/24, m.crashes, m.checked, m.again, len(m.fired), m.deadChecked, len(m.poison))
	for _, counts := range []struct {
		what string
		of   map[string]int
	}{{"it saw", m.count}, {"failures by operation", m.failures.injected}} {
		fmt.Fprintf(&s, "\n%s:", counts.what)
		for _, what := range slices.Sorted(maps.Keys(counts.of)) {
			fmt.Fprintf(&s, " %s %d,", what, counts.of[what])
		}
	}
	return strings.TrimSuffix(s.String(), ",")
}
