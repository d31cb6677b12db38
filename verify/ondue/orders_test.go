package ondue

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// longestLife is how long after its first transaction the shop may live.
const longestLife = 120 * time.Millisecond

// ordersInLife is more than the shop books in it.
const ordersInLife = 20

// TestOrdersAndTimersOfAKilledProgramAgree kills a shop at random moments. After each
// kill, and at the end, every order has its timer and every timer its order, both in
// states that go together.
func TestOrdersAndTimersOfAKilledProgramAgree(t *testing.T) {
	if testing.Short() {
		t.Skip("kills processes for some seconds: not with -short")
	}
	t.Parallel()
	r := &orders{t: t, path: filepath.Join(t.TempDir(), "shop.db"), waiting: make(map[int]bool)}
	start := time.Now()
	for killed := 0; killed < *kills; {
		if r.live(true) {
			killed++
		}
		r.compare()
	}
	r.live(false)
	r.compare()
	states := r.states()
	t.Logf("Orders: %d kills in %v, %d while one was being booked or canceled: %d orders, of these %d expired and %d canceled; %d orders without their timer, or timers without their order",
		*kills, time.Since(start).Round(time.Second), r.inside, r.last, states["expired"], states["canceled"], r.apart)
	if states["expired"]+states["canceled"] != r.last || len(states) != 2 {
		t.Errorf("%d orders became %v: each must have expired or be canceled", r.last, states)
	}
	if r.inside < *kills/4 {
		t.Errorf("%d of %d kills hit an order: too few", r.inside, *kills)
	}
}

// Orders are the lives of the shop, one after the other.
type orders struct {
	t    *testing.T
	path string

	last    int          // number of the last order that was asked for
	waiting map[int]bool // orders that the shop has not said to have booked
	inside  int          // kills after a transaction began, and before its end was said
	apart   int          // orders and timers that do not go together
}

// live has the shop live once, asks it for orders, and kills it some time after its first
// transaction has begun; else it is asked for nothing new, and ends by itself. It
// reports whether the shop was killed.
func (r *orders) live(killed bool) bool {
	r.t.Helper()
	for killed && len(r.waiting) < ordersInLife {
		r.last++
		r.waiting[r.last] = true
	}
	open, first := false, killed // whether a transaction began last
	killed = live(r.t, r.path, shopMode, r.waiting, func(line string, kill func(after time.Duration)) {
		open = strings.HasPrefix(line, begun)
		if open && first {
			first = false
			kill(rand.N(longestLife))
		}
	})
	if killed && open {
		r.inside++
	}
	return killed
}

// apart are orders and timers that do not go together. A timer that fired has an event
// in the outbox until its order has expired.
const apart = `
SELECT coalesce(o.id, t.service_call_id), coalesce(o.state, 'none'), coalesce(t.state, 'none'), coalesce(o.expired, 0), e.seq IS NOT NULL
  FROM orders AS o
  FULL JOIN timer_schedules AS t ON t.tenant_id = 'acme' AND t.service_call_id = o.id
  LEFT JOIN timer_outbox AS e ON e.payload ->> '$.payload.serviceCallId' = o.id
 WHERE (coalesce(o.state, 'none'), coalesce(t.state, 'none'), coalesce(o.expired, 0), e.seq IS NOT NULL) NOT IN (VALUES
       ('booked', 'Scheduled', 0, 0), ('booked', 'Reached', 0, 1), ('expired', 'Reached', 1, 0), ('canceled', 'Canceled', 0, 0))
    OR o.id IS NULL
    OR EXISTS (SELECT 1 FROM timer_outbox_parked)
    OR EXISTS (SELECT 1 FROM timer_outbox_deferred)`

// compare looks for orders without their timers, and timers without their orders.
func (r *orders) compare() {
	r.t.Helper()
	r.query(apart, func(rows *sql.Rows) error {
		var id, order, timer string
		var expired int
		var event bool
		err := rows.Scan(&id, &order, &timer, &expired, &event)
		r.t.Errorf("the order %s is %s, expired %d times, its timer is %s, its event waits: %v", id, order, expired, timer, event)
		r.apart++
		return err
	})
}

// states returns how many orders are in each state.
func (r *orders) states() map[string]int {
	r.t.Helper()
	states := make(map[string]int)
	r.query(`SELECT state, count(*) FROM orders GROUP BY state`, func(rows *sql.Rows) error {
		var state string
		var n int
		err := rows.Scan(&state, &n)
		states[state] = n
		return err
	})
	return states
}

func (r *orders) query(text string, each func(*sql.Rows) error) {
	r.t.Helper()
	db, err := open(r.t.Context(), r.path, ordersTable)
	if err != nil {
		r.t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(r.t.Context(), text)
	if err != nil {
		r.t.Fatal(fmt.Errorf("%w: %s", err, text))
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows); err != nil {
			r.t.Fatal(err)
		}
	}
	if err := rows.Err(); err != nil {
		r.t.Fatal(err)
	}
}
