package sqlite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/store/storetest"
	"github.com/event-service-agent/timer-service/timer"
)

// plans are what SQLite does for each statement: it seeks, and sorts nothing.
// Statements that only add a row, or find their row by the conflict with it,
// have no plan.
var plans = map[string][]string{
	"append":     nil,
	"cancel":     nil,
	"correlated": {"SEARCH timer_schedules USING INDEX idx_timer_schedules_correlation_id (correlation_id=?)"},
	"count":      {"SCALAR SUBQUERY 1", "SEARCH timer_schedules USING COVERING INDEX idx_timer_schedules_tenant_due (tenant_id=?)"},
	"counts":     {"SEARCH timer_counts USING PRIMARY KEY (tenant_id=?)"},
	"backlogged": {"SCALAR SUBQUERY 1", dueTenants, dueTimers},
	"delete":     {"SEARCH timer_outbox USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
	"due":        {dueTenants, "SEARCH s USING INDEX idx_timer_schedules_tenant_due (tenant_id=? AND due_at<?)"},
	"due_tenant": {"SEARCH timer_schedules USING INDEX idx_timer_schedules_tenant_due (tenant_id=? AND due_at<?)"},
	"delivery": {
		"COMPOUND QUERY", "LEFT-MOST SUBQUERY", "MATERIALIZE head", walkNumbers, "SCAN head",
		"UNION ALL", "MATERIALIZE deferred", "SCAN timer_outbox_deferred", "SCAN deferred",
		"UNION ALL", "MATERIALIZE parked", walkParked, "SCAN parked",
		"UNION ALL", "SCALAR SUBQUERY 7", "SCAN head", "SCALAR SUBQUERY 8", "SCAN deferred", "SCALAR SUBQUERY 9", "SCAN parked",
	},
	"overdue":        {"CO-ROUTINE (subquery-2)", dueTenants, dueTimers, "SCAN (subquery-2)", "SCALAR SUBQUERY 1", nextDues},
	"overdue_tenant": {"CO-ROUTINE (subquery-1)", byTenantDue, "SCAN (subquery-1)"},
	"soonest": {
		"COMPOUND QUERY", "LEFT-MOST SUBQUERY", "CO-ROUTINE (subquery-1)",
		"SEARCH timer_schedules USING COVERING INDEX idx_timer_schedules_tenant_due (tenant_id=? AND due_at=? AND rowid>?)", "SCAN (subquery-1)",
		"UNION ALL", "CO-ROUTINE (subquery-3)", "SEARCH timer_schedules USING COVERING INDEX idx_timer_schedules_tenant_due (tenant_id=? AND due_at>? AND due_at<?)", "SCAN (subquery-3)",
	},
	"soonest_tenants": {nextDues},
	"rows":            {eachOf, byRowid},
	"upcoming": {
		"CO-ROUTINE intervals", "SETUP", "RECURSIVE STEP", "SCAN intervals", "SCAN intervals", "CORRELATED SCALAR SUBQUERY 4", "CO-ROUTINE (subquery-3)",
		dueTenants, "SEARCH s USING COVERING INDEX idx_timer_schedules_tenant_due (tenant_id=? AND due_at>? AND due_at<?)", "SCAN (subquery-3)",
	},
	"upcoming_many": {dueTenants, "SCALAR SUBQUERY 1", nextDues, "SEARCH s USING COVERING INDEX idx_timer_schedules_tenant_due (tenant_id=? AND due_at>? AND due_at<?)"},
	"upcoming_tenant": {
		"CO-ROUTINE intervals", "SETUP", "RECURSIVE STEP", "SCAN intervals", "SCAN intervals", "CORRELATED SCALAR SUBQUERY 4", "CO-ROUTINE (subquery-3)",
		"SEARCH timer_schedules USING COVERING INDEX idx_timer_schedules_tenant_due (tenant_id=? AND due_at>? AND due_at<?)", "SCAN (subquery-3)",
	},
	"parents":               {"SCAN wanted VIRTUAL TABLE INDEX 1:", "SEARCH parent USING COVERING INDEX sqlite_autoindex_service_calls_1 (tenant_id=? AND service_call_id=?)"},
	"parked":                {"SEARCH timer_outbox_parked USING INTEGER PRIMARY KEY (rowid<?)"},
	"parked_tenant":         {"SEARCH timer_outbox_parked USING INDEX idx_timer_outbox_parked_tenant (<expr>=? AND rowid<?)"},
	"retry_parked":          {byParked, "LIST SUBQUERY 1", eachRow},
	"discard_parked":        {byParked, "LIST SUBQUERY 1", eachRow},
	"unpublished":           {"CO-ROUTINE (subquery-1)", "SCAN timer_outbox", "SEARCH (subquery-1)"},
	"forget":                {byRowid, "LIST SUBQUERY 1", "SEARCH timer_schedules USING INDEX sqlite_autoindex_timer_schedules_1 (tenant_id=?)"},
	"forget_outbox":         {byNumber, "LIST SUBQUERY 1", walkNumbers},
	"forget_parked":         {byParked, "LIST SUBQUERY 1", "SEARCH timer_outbox_parked USING INDEX idx_timer_outbox_parked_tenant (<expr>=?)"},
	"advance":               {eachRow},
	"written":               nil,
	"writes":                {"SEARCH timer_numbers USING PRIMARY KEY (broker=? AND log=? AND kind=?)"},
	"fired":                 nil,
	"fired_outbox":          {walkNumbers, "LIST SUBQUERY 1", eachOf, "CREATE BLOOM FILTER"},
	"fired_outbox_deferred": {"SCAN timer_outbox_deferred", "LIST SUBQUERY 1", eachOf, "CREATE BLOOM FILTER"},
	"defer":                 {byNumber},
	"defer_again":           {byDeferred},
	"claim":                 {byUnclaimed},
	"claimed":               {byDeferred, "LIST SUBQUERY 1", byUnclaimedOnly},
	"unclaimed":             {"SEARCH timer_outbox_deferred USING COVERING INDEX idx_timer_outbox_deferred_retry (unclaimed=?)"},
	"deferred": {
		"CO-ROUTINE destinations", "SETUP", "SCALAR SUBQUERY 1",
		"SEARCH timer_outbox_deferred USING COVERING INDEX idx_timer_outbox_deferred_retry (unclaimed=? AND destination>?)",
		"RECURSIVE STEP", "SCAN destinations", "CORRELATED SCALAR SUBQUERY 3",
		"SEARCH d USING COVERING INDEX idx_timer_outbox_deferred_retry (unclaimed=? AND destination>?)",
		"SCAN destinations", "SEARCH d USING INTEGER PRIMARY KEY (rowid=?)",
		"CORRELATED LIST SUBQUERY 5",
		"SEARCH due USING COVERING INDEX idx_timer_outbox_deferred_retry (unclaimed=? AND destination=? AND retry_at<?)",
	},
	"next_retry": {
		"CO-ROUTINE destinations", "SETUP", "SCALAR SUBQUERY 1",
		"SEARCH timer_outbox_deferred USING COVERING INDEX idx_timer_outbox_deferred_retry (unclaimed=?)",
		"RECURSIVE STEP", "SCAN destinations", "CORRELATED SCALAR SUBQUERY 3",
		"SEARCH d USING COVERING INDEX idx_timer_outbox_deferred_retry (unclaimed=? AND destination>?)",
		"SEARCH destinations", "CORRELATED SCALAR SUBQUERY 5",
		"SEARCH due USING COVERING INDEX idx_timer_outbox_deferred_retry (unclaimed=? AND destination=? AND retry_at>?)",
	},
	"failing": {
		"MATERIALIZE waits", "CO-ROUTINE destinations", "SETUP", "SCALAR SUBQUERY 1",
		"SEARCH timer_outbox_deferred USING COVERING INDEX idx_timer_outbox_deferred_retry (unclaimed=? AND destination<?)",
		"RECURSIVE STEP", "SCAN destinations", "CORRELATED SCALAR SUBQUERY 3",
		"SEARCH d USING COVERING INDEX idx_timer_outbox_deferred_retry (unclaimed=? AND destination>? AND destination<?)",
		"SCAN destinations", "CORRELATED SCALAR SUBQUERY 6", "CO-ROUTINE (subquery-5)",
		"SEARCH d USING INDEX idx_timer_outbox_deferred_retry (unclaimed=? AND destination=?)",
		"SCAN (subquery-5)", "SCAN waits",
	},
	"delete_deferred": {"SEARCH timer_outbox_deferred USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
	"get":             {byKey},
	"head":            {"SEARCH timer_outbox USING INTEGER PRIMARY KEY (rowid>?)"},
	"list":            {"SEARCH timer_schedules USING INDEX sqlite_autoindex_timer_schedules_1 (tenant_id=? AND service_call_id>? AND service_call_id<?)"},
	"lock":            {byNumber},
	"mark":            {byRowid, "LIST SUBQUERY 1", "SCAN json_each VIRTUAL TABLE INDEX 1:"},
	"next_due": {
		"CO-ROUTINE (subquery-4)", "COMPOUND QUERY", "LEFT-MOST SUBQUERY", "SCALAR SUBQUERY 1",
		"SEARCH timer_counts USING COVERING INDEX idx_timer_counts_next_due (next_due>?)",
		"UNION ALL", dueTenants, "CORRELATED SCALAR SUBQUERY 3",
		"SEARCH s USING COVERING INDEX idx_timer_schedules_tenant_due (tenant_id=? AND due_at>?)", "SEARCH (subquery-4)",
	},
	"correct_next_due": {"SEARCH timer_counts USING INDEX idx_timer_counts_next_due (next_due<?)", "CORRELATED SCALAR SUBQUERY 1", firstDue},
	"park":             {byNumber},
	"park_deferred":    {byDeferred},
	"over_from":        {"SEARCH timer_schedules USING INDEX idx_timer_schedules_over (<expr>>?)"},
	"over":             {"SCALAR SUBQUERY 1", byOver},
	"purge":            {byRowid, "LIST SUBQUERY 1", byOver},
	"schedule":         nil,
	"status":           {"SCAN wanted VIRTUAL TABLE INDEX 1:", "SEARCH timer USING INDEX sqlite_autoindex_timer_schedules_1 (tenant_id=? AND service_call_id=?)"},
	"tenant_counts":    {"SEARCH timer_counts USING PRIMARY KEY (tenant_id>?)"},
	"due_tenants":      {nextDues},
	"tenants":          {"SEARCH timer_counts USING PRIMARY KEY (tenant_id>?)"},
	"inbox_put":        nil,
	"inbox_replace":    {"SEARCH timer_inbox USING INDEX idx_timer_inbox_number (log=? AND number=?)"},
	"inbox_due": {
		"CO-ROUTINE tenants", "SETUP", "RECURSIVE STEP", "SCAN tenants", "CORRELATED SCALAR SUBQUERY 2",
		"SEARCH i USING COVERING INDEX idx_timer_inbox_retry (tenant_id>?)", "SCAN tenants", "LIST SUBQUERY 7", eachOf,
		"CREATE BLOOM FILTER", "SEARCH i EXISTS USING COVERING INDEX idx_timer_inbox_retry (tenant_id=? AND retry_at<?)", "CORRELATED SCALAR SUBQUERY 5",
		"CO-ROUTINE (subquery-4)", "SEARCH i USING COVERING INDEX idx_timer_inbox_retry (tenant_id=? AND retry_at<?)", "SCAN (subquery-4)",
	},
	"inbox_due_tenant": {"SEARCH timer_inbox USING INDEX idx_timer_inbox_retry (tenant_id=? AND retry_at<?)"},
	"inbox_claim":      {byMessage, "LIST SUBQUERY 1", eachOf},
	"inbox_defer":      {byMessage},
	"inbox_delete":     {byMessage, "LIST SUBQUERY 1", eachOf},
	"inbox_next": {
		"CO-ROUTINE tenants", "SETUP", "RECURSIVE STEP", "SCAN tenants", "CORRELATED SCALAR SUBQUERY 2",
		"SEARCH i USING COVERING INDEX idx_timer_inbox_retry (tenant_id>?)", "SEARCH tenants", "CORRELATED SCALAR SUBQUERY 4",
		"SEARCH i USING COVERING INDEX idx_timer_inbox_retry (tenant_id=? AND retry_at>?)",
	},
	"inbox_waiting":       {"SEARCH timer_inbox USING INTEGER PRIMARY KEY (rowid>?)"},
	"inbox_counts":        {walkInbox},
	"inbox_counts_tenant": {"SEARCH timer_inbox USING COVERING INDEX idx_timer_inbox_retry (tenant_id=? AND retry_at>?)"},
	"inbox_applied":       {"SEARCH timer_inbox USING INDEX idx_timer_inbox_applied (tenant_id=? AND seq>?)"},
	"inbox_numbers":       {"SCAN wanted VIRTUAL TABLE INDEX 1:", "SEARCH i USING COVERING INDEX idx_timer_inbox_number (log=? AND number=?)"},
	"inbox_forget": {
		byMessage, "LIST SUBQUERY 4", "COMPOUND QUERY", "LEFT-MOST SUBQUERY", "CO-ROUTINE (subquery-1)",
		"SEARCH timer_inbox USING COVERING INDEX idx_timer_inbox_retry (tenant_id=? AND retry_at>?)", "SCAN (subquery-1)", "UNION ALL",
		"CO-ROUTINE (subquery-3)", "SEARCH timer_inbox USING INDEX idx_timer_inbox_applied (tenant_id=?)", "SCAN (subquery-3)",
	},
	"inbox_purgeable": {
		"MATERIALIZE waits", "CO-ROUTINE tenants", "SETUP", "RECURSIVE STEP", "SCAN tenants", "CORRELATED SCALAR SUBQUERY 2",
		"SEARCH i USING INDEX idx_timer_inbox_applied (tenant_id>?)", "SCAN tenants", "CORRELATED SCALAR SUBQUERY 4",
		"SEARCH i USING COVERING INDEX idx_timer_inbox_retry (tenant_id=? AND retry_at>?)", "SCAN waits",
		"SEARCH a USING INDEX idx_timer_inbox_applied (tenant_id=?)", "CORRELATED SCALAR SUBQUERY 7", "MATERIALIZE reached", walkReached,
		"SEARCH reached USING AUTOMATIC COVERING INDEX (log=?)", "CORRELATED SCALAR SUBQUERY 8",
		"SEARCH w USING INDEX idx_timer_inbox_number (log=? AND number<?)",
	},
	"walk_end": {"SEARCH timer_schedules USING COVERING INDEX sqlite_autoindex_timer_schedules_1 (tenant_id=? AND service_call_id>? AND service_call_id<?)"},
}

// notHot are statements for people, or on a table of one row, which may scan tables
// that have few rows.
var notHot = []string{"stats", "inspect", "identity", "firing", "pause", "resume", "decide", "decisions", "decision_published", "registered_before", "known", "hasten", "inbox_hasten", "numbered", "referenced", "renumber", "triggers"}

const (
	byKey           = "SEARCH timer_schedules USING INDEX sqlite_autoindex_timer_schedules_1 (tenant_id=? AND service_call_id=?)"
	byRowid         = "SEARCH timer_schedules USING INTEGER PRIMARY KEY (rowid=?)"
	dueTenants      = "SEARCH c USING COVERING INDEX idx_timer_counts_next_due (next_due<?)"
	dueTimers       = "SEARCH s USING COVERING INDEX idx_timer_schedules_tenant_due (tenant_id=? AND due_at<?)"
	firstDue        = "SEARCH s USING COVERING INDEX idx_timer_schedules_tenant_due (tenant_id=?)"
	nextDues        = "SEARCH timer_counts USING COVERING INDEX idx_timer_counts_next_due (next_due<?)"
	byTenantDue     = "SEARCH timer_schedules USING COVERING INDEX idx_timer_schedules_tenant_due (tenant_id=? AND due_at<?)"
	byOver          = "SEARCH timer_schedules USING INDEX idx_timer_schedules_over (<expr><?)"
	byDeferred      = "SEARCH timer_outbox_deferred USING INTEGER PRIMARY KEY (rowid=?)"
	byUnclaimed     = "SEARCH timer_outbox_deferred USING INDEX idx_timer_outbox_deferred_retry (unclaimed=? AND destination>? AND destination<?)"
	byUnclaimedOnly = "SEARCH timer_outbox_deferred USING COVERING INDEX idx_timer_outbox_deferred_retry (unclaimed=? AND destination>? AND destination<?)"
	byMessage       = "SEARCH timer_inbox USING INTEGER PRIMARY KEY (rowid=?)"
	byNumber        = "SEARCH timer_outbox USING INTEGER PRIMARY KEY (rowid=?)"
	byParked        = "SEARCH timer_outbox_parked USING INTEGER PRIMARY KEY (rowid=?)"
	eachOf          = "SCAN json_each VIRTUAL TABLE INDEX 1:"  // what was given as an argument
	eachRow         = "SCAN jsonb_each VIRTUAL TABLE INDEX 1:" // the same, of which each is an object
)

// Statements that are to tell everything, in its order.
const (
	walkNumbers = "SCAN timer_outbox"
	walkParked  = "SCAN timer_outbox_parked"
	walkTenants = "SCAN timer_counts"
	walkInbox   = "SCAN timer_inbox USING COVERING INDEX idx_timer_inbox_retry"
	walkReached = "SCAN timer_numbers" // which has a row for each log and kind
)

var walks = []string{walkNumbers, "SCAN timer_outbox_deferred", walkParked, walkTenants, walkInbox, walkReached}

// TestPlans explains every statement on a populated database, before and after
// it knows statistics, which a host may collect at any time.
func TestPlans(t *testing.T) {
	t.Parallel()
	s := openAt(t, filepath.Join(t.TempDir(), "timers.db"), Options{Durability: Relaxed})
	storetest.Populate(t, s)
	if _, err := s.db.ExecContext(t.Context(), `CREATE TABLE service_calls (tenant_id, service_call_id, PRIMARY KEY (tenant_id, service_call_id))`); err != nil {
		t.Fatal(err)
	}
	files, err := queries.ReadDir("query")
	if err != nil {
		t.Fatal(err)
	}
	names := slices.Collect(maps.Keys(plans))
	for _, file := range files {
		name := strings.TrimSuffix(file.Name(), ".sql")
		if _, known := plans[name]; !known && !slices.Contains(notHot, name) {
			t.Errorf("%s is in no plan test", name)
		}
	}
	slices.Sort(names)
	for _, analyze := range []bool{false, true} {
		if analyze {
			if _, err := s.db.ExecContext(t.Context(), `ANALYZE`); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range names {
			if diff := cmp.Diff(plans[name], explain(t.Context(), t, s, name)); diff != "" {
				t.Errorf("%s, analyzed %v (-want +got):\n%s", name, analyze, diff)
			}
		}
	}
	seeks := regexp.MustCompile(`^(SEARCH|SCALAR|CORRELATED|LIST|CO-ROUTINE|CREATE BLOOM FILTER|SETUP|RECURSIVE|MATERIALIZE|SCAN ((jsonb?_each|wanted) VIRTUAL TABLE INDEX 1:|tenants|intervals|waits|destinations|head|deferred|parked|\(subquery-[0-9]+\))$|MERGE|LEFT|RIGHT|COMPOUND|UNION)`)
	for name, plan := range plans {
		for _, line := range plan {
			if !seeks.MatchString(line) && !slices.Contains(walks, line) {
				t.Errorf("%s does not seek: %s", name, line)
			}
		}
	}
}

// TestReadersCanNotWrite tries it on the handle that reads.
func TestReadersCanNotWrite(t *testing.T) {
	t.Parallel()
	s := openAt(t, filepath.Join(t.TempDir(), "timers.db"), Options{})
	if _, err := s.reads.ExecContext(t.Context(), `DELETE FROM timer_schedules`); err == nil {
		t.Error("a reader deleted timers")
	}
}

// TestNoPlanDependsOnALimit reads the statements that are prepared once. SQLite
// reads the value of a LIMIT that is a bare parameter, and compiles the
// statement anew each time it is bound: Reach took three times as long
// (measured 2026-11). A plus in front hides it.
func TestNoPlanDependsOnALimit(t *testing.T) {
	t.Parallel()
	bare := regexp.MustCompile(`(LIMIT|OFFSET) \?`)
	for _, text := range writing {
		if bare.MatchString(text) {
			t.Errorf("write LIMIT +? in\n%s", text)
		}
	}
}

// TestNoNumberOfRowsPreparesAStatement schedules timers and appends events in transactions of any
// number: to prepare a statement takes longer than to write its rows.
func TestNoNumberOfRowsPreparesAStatement(t *testing.T) {
	t.Parallel()
	s := openAt(t, filepath.Join(t.TempDir(), "timers.db"), Options{})
	for _, n := range []int{1, 2, 49, 50, 111} {
		commands, events := make([]timer.ScheduleTimer, n), make([]timer.DueTimeReached, n)
		for i := range commands {
			key := timer.Key{TenantID: "acme", ServiceCallID: timer.ServiceCallID(fmt.Sprint(n, "-", i))}
			commands[i] = timer.ScheduleTimer{Key: key, Version: timer.Version{TimestampMS: 1, CommandID: "command"}, DueAt: time.UnixMilli(1)}
			events[i] = timer.DueTimeReached{Key: key, DueAt: time.UnixMilli(1), ReachedAt: time.UnixMilli(1)}
		}
		if err := s.transact(t.Context(), func(ctx context.Context, tx *transaction) error {
			err := errors.Join(tx.apply(ctx, store.Schedule(time.UnixMilli(1), commands), 0, n), tx.Emit(ctx, events...))
			for text, prepared := range tx.used {
				if prepared == nil {
					t.Errorf("%d rows: not prepared: %s", n, text)
				}
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if rows, err := s.Head(t.Context(), 0, 1000); err != nil || len(rows) != n || s.Delete(t.Context(), places(rows)...) != nil {
			t.Errorf("%d events in the outbox, %v, want %d", len(rows), err, n)
		}
	}
	if stats, err := s.Stats(t.Context(), ""); err != nil || stats.Scheduled != 213 {
		t.Errorf("%d timers, %v, want 213", stats.Scheduled, err)
	}
}

func places(rows []outbox.Row) (all []outbox.Place) {
	for _, row := range rows {
		all = append(all, row.Place)
	}
	return all
}

// textOf returns a statement by the name of its file, or, with _deferred behind the name,
// the same on deferred rows.
func textOf(name string) string {
	if base, deferred := strings.CutSuffix(name, "_deferred"); deferred {
		return store.OnBoth(query(base)).Deferred
	}
	return query(name)
}

func explain(ctx context.Context, t *testing.T, s *Store, name string) (plan []string) {
	t.Helper()
	text := textOf(name)
	parameters := make([]any, max(strings.Count(text, "?"), 12))
	rows, err := s.db.QueryContext(ctx, "EXPLAIN QUERY PLAN "+text, parameters...)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	defer rows.Close()
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			t.Fatal(err)
		}
		if detail != "SCAN CONSTANT ROW" { // no table
			plan = append(plan, detail)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return plan
}

// TestAnIdleInboxWritesNothing asks an inbox with nothing that is due, and with a selection
// that must stay, while another transaction has the database.
func TestAnIdleInboxWritesNothing(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := openAt(t, filepath.Join(t.TempDir(), "timers.db"), Options{Durability: Relaxed})
	noon := time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC)
	if err := s.inbox.PutInbox(ctx,
		timer.InboxMessage{TenantID: "acme", ArrivedAt: noon, Reason: timer.WaitFailed, RetryAt: noon.Add(time.Second)},
		timer.InboxMessage{TenantID: "acme", ArrivedAt: noon, Reason: timer.WaitApplied}); err != nil {
		t.Fatal(err)
	}
	<-s.turn // no transaction that writes can begin
	defer func() { s.turn <- struct{}{} }()
	for what, ask := range map[string]func() error{
		"take":  func() error { _, err := s.inbox.TakeInbox(ctx, noon, noon.Add(time.Minute), 10, 10, nil); return err },
		"next":  func() error { _, err := s.inbox.NextInbox(ctx); return err },
		"count": func() error { _, err := s.inbox.InboxCounts(ctx, ""); return err },
		"purge": func() error { _, err := s.inbox.PurgeApplied(ctx, noon, 10); return err },
	} {
		if err := ask(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func openAt(t *testing.T, path string, opt Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, opt)
	return storetest.Opened(t, s, err)
}
