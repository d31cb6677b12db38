// Package storetest is the contract of a store as tests and benchmarks. A store
// is finished when [Run] passes; the list of cases repeats the promises of the
// ports.
package storetest

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// A Store is all that a store implements.
type Store interface {
	timer.Store
	timer.Reader
	timer.Operator
	timer.Recoverer
	outbox.Table
	Database
}

// A Database is one that can be told apart from others, see app.Store.
type Database interface {
	Identity(ctx context.Context) (id, name string, err error)
	Shared() store.Shared
	Check(ctx context.Context) error
	Inbox() timer.Inbox
	RegisteredBefore(ctx context.Context, before time.Time, limit int) (timer.Unprotected, error)
	DB() *sql.DB // the handle that writes
}

// Run tests a store. Open returns an empty one, and has it closed when the test
// ends; cases run at the same time, each on a store of its own.
func Run(t *testing.T, open func(testing.TB) Store) {
	for _, c := range []struct {
		name string
		test func(*suite)
	}{
		{"Commands: every state meets every command, older, same and newer", commandsMeetStates},
		{"Commands: the same key several times in one call", sameKeyInOneCall},
		{"Commands: a call with many is applied in order and tells what each did", manyCommands},
		{"Commands: what breaks a rule of the schema is refused by its name, and nothing else", refuseByRule},
		{"Commands: of a context that has ended change nothing", endedContext},
		{"A timer keeps all that the command said", keepsFields},
		{"A timer without correlation and trace has none", keepsNothing},
		{"A due time is rounded up, the clock down", rounding},
		{"Due times of all years are kept to the millisecond", years},
		{"Tenants with the same service call are apart", tenantsApart},

		{"Reach takes what is due, and no more than asked", reachLimit},
		{"Reach marks for good: nothing comes twice", reachOnce},
		{"Reach leaves alone what was canceled or moved away", reachSkips},
		{"Reach while more is due than a batch: tenants share equally", reachShares},
		{"Reach while more is due than a batch: a great tenant delays no small one", reachSmallTenants},
		{"Reach while more is due than a batch: nothing early", reachNeverEarly},
		{"Reach while more is due than a batch: a share that is not used goes to the oldest", reachLeftover},
		{"Reach with an allowance: no tenant has more than it may, the oldest first", allowedOldest},
		{"Reach with an allowance: the same while more is due than a batch", allowedBacklogged},
		{"Reach with an allowance: a tenant that may have none stays as it is and delays no other", allowedNone},
		{"Reach with an allowance: further calls return all that is allowed", allowedInTurns},
		{"Reach has a timer expire that is marked when its expiry has come, or after", expires},
		{"Reach has timers expire also where tenants share a batch", expiresShared},
		{"Reach with an allowance: one call goes over thousands of tenants that may not fire", allowedFarAway},
		{"Next due is the earliest of those that wait", nextDue},

		{"Update commits Reach and Emit together", updateCommits},
		{"Update leaves no trace when fn fails", updateFails},
		{"Update leaves no trace when fn panics, and the store goes on", updatePanics},
		{"Update leaves no trace when its context ends", updateEnds},
		{"Reads do not wait for a writer, and see what was committed", readsDoNotWait},

		{"Get what is not there: ErrNotFound", getNothing},
		{"List in pages, by service call, of one tenant", listPages},
		{"Correlated finds timers of all tenants", correlated},
		{"List by state, due time, correlation and prefix", listFilters},
		{"Many timers are canceled by prefix, correlation or name", cancelSelected},
		{"Many timers are moved by prefix, correlation or name, and nothing but their due time", rescheduleSelected},
		{"Many timers are moved by a duration, each once however often it goes on", rescheduleBy},
		{"Timers that change while they are moved are moved as they are then, or not", rescheduleChanging},
		{"Commands by selection have an effect on what is there and older, in any order", selections},
		{"List goes over many timers that do not match in bounded steps", listWalks},
		{"Due: timers of all tenants, soonest first, in pages", duePages},
		{"Due: pages of timers of one due time", dueTogether},
		{"Over: timers of all tenants that are over since a time, in the order of that, in pages", overPages},
		{"Overdue counts to a limit, of a tenant and of all", overdue},
		{"Upcoming counts by interval, of a tenant and of all", upcoming},
		{"Upcoming counts to a limit", upcomingMany},
		{"Upcoming: counts stop at the limit that is given", upcomingLimited},
		{"Upcoming: intervals that make no sense are refused", upcomingRefused},
		{"Delivery: where an event is, until it is published", delivery},
		{"Delivery: more events wait than are read", deliveryUnknown},
		{"Timers are counted by the age of their commands", registeredBefore},
		{"Stats count", stats},
		{"Tenants in pages, those that have timers", tenantPages},
		{"Purge forgets what was over before the time, and nothing else", purge},
		{"Purge goes on in small steps, the oldest first", purgeSteps},
		{"Purge counts from the newest command", purgeRevived},

		{"Identity: each database has its own, which stays", identities},
		{"Check: a database that works has nothing wrong, and is not changed", checks},

		{"Outbox: events come in the order they were appended", outboxOrder},
		{"Outbox: a row is the message that consumers get", outboxMessage},
		{"Outbox: an event that is published again is a message of its own, appended then", outboxAgain},
		{"Outbox: commands that want a receipt have one, in their transaction", outboxReceipts},
		{"Outbox: rows in pages", outboxPages},
		{"Outbox: delete takes the rows named, once and again", outboxDelete},
		{"Outbox: a number is never used again", outboxNumbers},
		{"Outbox: a deferred row leaves the head, and is due at its time", outboxDefer},
		{"Outbox: due rows come from each destination in turn", outboxDeferMany},
		{"Outbox: deferred rows can be due at once", outboxHasten},
		{"Outbox: a row that its handler wants later is never due earlier, and neither old nor failing", outboxSnoozed},
		{"Outbox: a destination that fails is counted, with its oldest event and the last reason", outboxFailing},
		{"Outbox: an unclaimed row is due again when it is claimed by a prefix of its service call", outboxClaim},
		{"Outbox: a parked row is out of the way and kept", outboxPark},

		{"Parked events in pages, of a tenant and of all", parkedPages},
		{"Parked events are retried as if they were new", retryParked},
		{"Parked events are discarded, and their timers stay", discardParked},
		{"Parked events that are gone count less, retried or discarded", parkedGone},
		{"Firing is paused until it is resumed, by the first who paused it", pauses},
		{"Firing of a tenant is paused and resumed apart from that of all", pausesOfTenants},
		{"A pause ends at its time, and to pause again moves that", pausesEnd},
		{"Reach by a tenant that may fire nothing: others fire at full speed", pausedDelaysNobody},
		{"Forget deletes a tenant's timers, parked events and messages that wait, in steps, and no other's", forget},
		{"Forget keeps events that wait, and no memory of the tenant", forgetLeaves},
		{"Forget until a time deletes what was there then, events that wait, too", forgetUntil},
		{"The last decision of each tenant and kind is kept, and is the newest by its time", decisions},
		{"A decision that was read counts if it is newer than what is known", decisionsRead},
		{"A decision is published until a later one replaces it", decisionsPublished},

		{"Numbers: the last one of each log and kind counts", numbersLast},
		{"Numbers of many logs are written at once", numbersOfMany},
		{"Recovery: a database is empty that holds no timer, event or position", emptyDatabases},
		{"Fired: a timer of any state becomes Reached, but for a newer generation", firedStates},
		{"Fired: a timer that expired stays Expired", firedExpired},
		{"Fired: times are rounded, and never early", firedTimes},
		{"Fired: two generations of a timer, in any order", firedTwice},
		{"Fired: events leave the outbox, deferred or not", firedLeavesOutbox},
		{"Alone runs what it is given", alone},

		{"Inbox: a message is kept as it came", inboxKeepsAll},
		{"Inbox: a message whose headers are damaged comes without them, and stops no other", inboxDamaged},
		{"Inbox: texts that not every database can hold are kept as far as they can be", inboxTexts},
		{"Inbox: times are rounded, and no message is handled early", inboxRounds},
		{"Inbox: many messages are put at once, and are taken in their order", inboxPutMany},
		{"Inbox: nothing is put for a context that has ended", inboxEnded},
		{"Inbox: what was taken is not taken again before its time", inboxClaims},
		{"Inbox: at most some messages of each tenant are taken, and none of tenants that are left out", inboxEach},
		{"Inbox: tenants share equally, and what some leave goes to the others", inboxShares},
		{"Inbox: a tenant with many messages delays no other", inboxGreatTenant},
		{"Inbox: more tenants than a call takes have their turn one after the other", inboxManyTenants},
		{"Inbox: of many that take at once each message goes to one", inboxConcurrently},
		{"Inbox: a message is deferred, and stays as it came", inboxDefer},
		{"Inbox: a selection that was applied is not deferred", inboxDeferApplied},
		{"Inbox: messages are due that would wait too long, and no others", inboxHasten},
		{"Inbox: messages are deleted, once and again, and no number is used again", inboxDelete},
		{"Inbox: what waits is counted by tenant and reason", inboxCounted},
		{"Inbox: the next time is the earliest of those that wait", inboxNext},
		{"Inbox: selections that were applied are kept apart", inboxSelections},
		{"Inbox: a selection that was applied takes the place of its message", inboxReplace},
		{"Inbox: numbers of a log are found, with when they first arrived", inboxNumbers},
		{"Inbox: a tenant is forgotten in steps, but for what arrived later", inboxForget},
		{"Inbox: selections are purged that a start does not read again", purgeReached},
		{"Inbox: selections of no log are purged after a time", purgeOfNoLog},
		{"Inbox: selections are purged in steps", purgeSelectionSteps},
		{"Inbox: selections stay that a waiting message may meet", purgeWaits},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := &suite{T: t, store: open(t), open: open}
			c.test(s)
			s.countsAreRight()
		})
	}
}

// noon is the present of most cases.
var noon = time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC)

// A suite has the tools of a case.
type suite struct {
	*testing.T
	store Store
	open  func(testing.TB) Store // another one
}

func key(tenant timer.TenantID, call timer.ServiceCallID) timer.Key {
	return timer.Key{TenantID: tenant, ServiceCallID: call}
}

// version is the version of a command of an age; the greater the newer.
func version(age int64) timer.Version {
	return timer.Version{TimestampMS: age, CommandID: fmt.Sprintf("command-%d", age)}
}

func schedule(k timer.Key, age int64, due time.Time) timer.ScheduleTimer {
	return timer.ScheduleTimer{Key: k, Version: version(age), DueAt: due}
}

func cancel(k timer.Key, age int64) timer.CancelTimer {
	return timer.CancelTimer{Key: k, Version: version(age)}
}

// schedule applies commands at noon and returns their outcomes.
func (s *suite) schedule(commands ...timer.ScheduleTimer) []timer.Outcome {
	s.Helper()
	return s.outcomes(s.store.Schedule(s.Context(), noon, commands...))
}

// cancel applies commands a second after noon and returns their outcomes.
func (s *suite) cancel(commands ...timer.CancelTimer) []timer.Outcome {
	s.Helper()
	return s.outcomes(s.store.Cancel(s.Context(), noon.Add(time.Second), commands...))
}

// outcomes returns those of results, none of which may be an error.
func (s *suite) outcomes(results []timer.Result, err error) []timer.Outcome {
	s.Helper()
	s.must(err)
	outcomes := make([]timer.Outcome, len(results))
	for i, r := range results {
		s.must(r.Err)
		outcomes[i] = r.Outcome
	}
	return outcomes
}

// timers schedules n timers of a tenant, one a millisecond, the first at a time
// given. Their service calls sort as their due times do.
func (s *suite) timers(tenant timer.TenantID, n int, first time.Time) {
	s.Helper()
	commands := make([]timer.ScheduleTimer, n)
	for i := range commands {
		call := timer.ServiceCallID(fmt.Sprintf("call-%06d", i))
		commands[i] = schedule(key(tenant, call), 1, first.Add(time.Duration(i)*time.Millisecond))
	}
	s.schedule(commands...)
}

// reach reaches in a transaction of its own.
func (s *suite) reach(now time.Time, limit int) []timer.Entry {
	s.Helper()
	return s.reachAllowed(now, limit, nil)
}

func (s *suite) reachAllowed(now time.Time, limit int, allow timer.Allowance) (entries []timer.Entry) {
	s.Helper()
	s.must(s.store.Update(s.Context(), func(tx timer.Tx) (err error) {
		entries, err = tx.Reach(s.Context(), now, limit, allow)
		return err
	}))
	return entries
}

// fire reaches and emits in one transaction, as the poller does.
func (s *suite) fire(now time.Time, limit int) (events []timer.DueTimeReached) {
	s.Helper()
	s.must(s.store.Update(s.Context(), func(tx timer.Tx) (err error) {
		events, err = fire(s.Context(), tx, now, limit)
		return err
	}))
	return events
}

func fire(ctx context.Context, tx timer.Tx, now time.Time, limit int) ([]timer.DueTimeReached, error) {
	entries, err := tx.Reach(ctx, now, limit, nil)
	if err != nil {
		return nil, err
	}
	events := make([]timer.DueTimeReached, len(entries))
	for i, e := range entries {
		events[i] = e.Event()
	}
	return events, tx.Emit(ctx, events...)
}

func (s *suite) get(k timer.Key) timer.Entry {
	s.Helper()
	entry, err := s.store.Get(s.Context(), k)
	s.must(err)
	return entry
}

func (s *suite) stats() timer.Stats {
	s.Helper()
	st, err := s.store.Stats(s.Context(), "")
	s.must(err)
	return st
}

func (s *suite) head(after int64, limit int) []outbox.Row {
	s.Helper()
	rows, err := s.store.Head(s.Context(), after, limit)
	s.must(err)
	return rows
}

// waiting returns all rows of the outbox, deferred or not, in their order.
func (s *suite) waiting() []outbox.Row {
	s.Helper()
	rows := append(s.head(0, 30_000), s.deferred(noon.Add(1000*time.Hour), "", 30_000, 30_000)...)
	slices.SortFunc(rows, func(a, b outbox.Row) int { return cmp.Compare(a.Seq, b.Seq) })
	return rows
}

func (s *suite) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// check is must for goroutines.
func (s *suite) check(err error) {
	s.Helper()
	if err != nil {
		s.Error(err)
	}
}

// same compares a value of the store with the wanted one.
func (s *suite) same(what string, got, want any) {
	s.Helper()
	if diff := gocmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		s.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// Populate has a store hold three thousand timers of twenty tenants, of which half have
// fired, and their events. The inbox has many messages of one tenant, a few of a thousand
// others, and selections that were applied.
func Populate(t testing.TB, s Store) {
	t.Helper()
	var commands []timer.ScheduleTimer
	for i := range 3000 {
		c := schedule(key(timer.TenantID(fmt.Sprint("tenant-", i%20)), timer.ServiceCallID(fmt.Sprint("call-", i))), 0, noon.Add(time.Duration(i)*time.Second))
		c.CorrelationID = fmt.Sprint("request-", i/3)
		commands = append(commands, c)
	}
	_, err := s.Schedule(t.Context(), noon, commands...)
	var messages []timer.InboxMessage
	for i := range 30_000 {
		m := waitingMessage(timer.TenantID(fmt.Sprint("tenant-", max(0, i-27_000)%1000)), fmt.Sprint(i))
		m.Log, m.Number = "commands", int64(i)
		messages = append(messages, m)
	}
	for i := range int64(500) {
		messages = append(messages, selection(timer.TenantID(fmt.Sprint("tenant-", i%20)), "commands", 30_000+i, noon))
	}
	err = errors.Join(err, s.Inbox().PutInbox(t.Context(), messages...))
	err = errors.Join(err, s.Advance(t.Context(), number("log", timer.LogCommands, 1), number("log", timer.LogEvents, 1)))
	for range 3 {
		err = errors.Join(err, s.Update(t.Context(), func(tx timer.Tx) error {
			_, err := fire(t.Context(), tx, noon.Add(time.Hour), 500)
			return err
		}))
	}
	if err != nil {
		t.Fatal(err)
	}
}
