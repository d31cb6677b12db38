package ondue

import (
	"bufio"
	"context"
	"database/sql"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/verify/internal/harness"
)

var kills = flag.Int("kills", 25, "how often the program is killed")

const (
	longestLife  = 250 * time.Millisecond // after its first transaction
	ordersInLife = 20                     // more than it books in that time
)

// TestMain makes the test binary the program, too.
func TestMain(m *testing.M) {
	path := os.Getenv(databaseEnv)
	if path == "" {
		os.Exit(m.Run())
	}
	if err := runShop(path, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// TestOrdersTimersAndHandlersOfAKilledProgramAgree kills a shop at random moments. After each
// kill, and at the end, every order has its timers and every timer its order, in
// states that go together. In the end each event was handled.
func TestOrdersTimersAndHandlersOfAKilledProgramAgree(t *testing.T) {
	if testing.Short() {
		t.Skip("kills processes for some seconds: not with -short")
	}
	t.Parallel()
	r := &run{T: t, path: filepath.Join(t.TempDir(), "shop.db"), waiting: make(map[int]bool)}
	start := time.Now()
	for killed := 0; killed < *kills; {
		if r.live(true) {
			killed++
		}
		r.compare()
	}
	r.live(false)
	r.compare()
	states := r.counts(`SELECT state, count(*) FROM orders GROUP BY state`)
	reminded := r.counts(`SELECT id, (SELECT count(*) FROM reminders AS r WHERE r.id = o.id) FROM orders AS o`)
	never, again := 0, 0
	for _, n := range reminded {
		switch {
		case n == 0:
			never++
		case n > 1:
			again++
		}
	}
	t.Logf("%d kills in %v, %d while an order was being booked or canceled: %d orders, of these %d expired and %d canceled; %d orders without their timers, or timers without their order; "+
		"handlers of OnDue begun %d times, %d events not handled, %d handled more than once",
		*kills, time.Since(start).Round(time.Second), r.inside, r.last, states["expired"], states["canceled"], r.apart, r.entered, never, again)
	if states["expired"]+states["canceled"] != r.last || len(states) != 2 {
		t.Errorf("%d orders became %v: each must have expired or be canceled", r.last, states)
	}
	if never > 0 || len(reminded) != r.last {
		t.Errorf("of %d events %d were not handled", r.last, never+r.last-len(reminded))
	}
	if r.inside < *kills/4 || r.entered < r.last+*kills/10 {
		t.Errorf("%d of %d kills hit an order, and %d handlers began for %d events: too few kills hit", r.inside, *kills, r.entered, r.last)
	}
}

// A run is the lives of the shop, one after the other.
type run struct {
	*testing.T
	path string

	last    int          // number of the last order that was asked for
	waiting map[int]bool // orders that the shop has not said to have booked
	inside  int          // kills after a transaction began, and before its end was said
	entered int          // handlers of OnDue
	apart   int          // orders and timers that do not go together
}

// live has the shop live once, asks it for orders, and kills it some time after its first
// transaction has begun; otherwise it gets no new work, and ends by itself. It
// reports whether the shop was killed; it must not end by itself in another way than cleanly.
func (r *run) live(kill bool) (killed bool) {
	r.Helper()
	for kill && len(r.waiting) < ordersInLife {
		r.last++
		r.waiting[r.last] = true
	}
	ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
	defer cancel()
	var numbers strings.Builder
	for n := range r.waiting {
		fmt.Fprintln(&numbers, n)
	}
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), databaseEnv+"="+r.path)
	cmd.Stderr, cmd.Stdin = os.Stderr, strings.NewReader(numbers.String())
	out, err := cmd.StdoutPipe()
	harness.Must(r, err)
	harness.Must(r, cmd.Start())
	open := false // whether a transaction began last
	for lines := bufio.NewScanner(out); lines.Scan(); {
		word, text, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case begun:
			open = true
			if kill {
				kill = false
				go func() { // which ends before the process is waited for, or finds that it was
					pause.For(ctx, rand.N(longestLife))
					_ = cmd.Process.Kill()
				}()
			}
		case booked:
			n, _ := strconv.Atoi(text)
			delete(r.waiting, n)
			open = false
		case entered:
			r.entered++
		}
	}
	err = cmd.Wait()
	killed = cmd.ProcessState.ExitCode() == -1
	if ctx.Err() != nil {
		r.Fatal("the program did not end in a minute")
	}
	if err != nil && !killed {
		r.Fatalf("the program ended by itself: %v", err)
	}
	if killed && open {
		r.inside++
	}
	return killed
}

// apart are orders and timers that do not go together. A timer that fired has an event
// in the outbox until its order has expired. A reminder is a timer of its own.
const apart = `
SELECT coalesce(o.id, t.service_call_id), coalesce(o.state, 'none'), coalesce(t.state, 'none'), coalesce(o.expired, 0), e.seq IS NOT NULL
  FROM orders AS o
  FULL JOIN (SELECT * FROM timer_schedules WHERE service_call_id NOT LIKE 'remind-%') AS t ON t.tenant_id = 'acme' AND t.service_call_id = o.id
  LEFT JOIN timer_outbox AS e ON e.payload ->> '$.payload.serviceCallId' = o.id
 WHERE (coalesce(o.state, 'none'), coalesce(t.state, 'none'), coalesce(o.expired, 0), e.seq IS NOT NULL) NOT IN (VALUES
       ('booked', 'Scheduled', 0, 0), ('booked', 'Reached', 0, 1), ('expired', 'Reached', 1, 0), ('canceled', 'Canceled', 0, 0))
    OR o.id IS NULL
    OR NOT EXISTS (SELECT 1 FROM timer_schedules WHERE service_call_id = 'remind-' || o.id)
    OR (SELECT count(*) FROM timer_schedules) <> 2 * (SELECT count(*) FROM orders)
    OR EXISTS (SELECT 1 FROM timer_outbox_parked)
    OR EXISTS (SELECT 1 FROM timer_outbox_deferred WHERE payload ->> '$.payload.serviceCallId' NOT LIKE 'remind-%')`

// compare looks for orders without their timers, and timers without their orders.
func (r *run) compare() {
	r.Helper()
	r.query(apart, func(rows *sql.Rows) error {
		var id, order, timer string
		var expired int
		var event bool
		err := rows.Scan(&id, &order, &timer, &expired, &event)
		r.Errorf("the order %s is %s, expired %d times, its timer is %s, its event waits: %v", id, order, expired, timer, event)
		r.apart++
		return err
	})
}

// counts returns a number for each name.
func (r *run) counts(query string) map[string]int {
	r.Helper()
	all := make(map[string]int)
	r.query(query, func(rows *sql.Rows) error {
		var name string
		var n int
		err := rows.Scan(&name, &n)
		all[name] = n
		return err
	})
	return all
}

func (r *run) query(text string, each func(*sql.Rows) error) {
	r.Helper()
	db, err := openShop(r.Context(), r.path)
	harness.Must(r, err)
	defer db.Close()
	rows, err := db.QueryContext(r.Context(), text)
	if err != nil {
		r.Fatal(fmt.Errorf("%w: %s", err, text))
	}
	defer rows.Close()
	for rows.Next() {
		harness.Must(r, each(rows))
	}
	harness.Must(r, rows.Err())
}
