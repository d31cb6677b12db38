package postgres

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/store/storetest"
	"github.com/event-service-agent/timer-service/timer"
)

var noon = time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC)

// A plan is how the server is to run a statement.
type plan struct {
	args []any    // like those it gets
	uses []string // the ways to rows of our tables: an index, or the place of a row; sorted
}

const (
	byPlace        = "Tid Scan"
	byKey          = "timer_schedules_pkey"
	byDue          = "idx_timer_schedules_due_at"
	byTenant       = "idx_timer_schedules_tenant_due"
	byNumber       = "timer_outbox_pkey"
	byDeferred     = "timer_outbox_deferred_pkey"
	byRetry        = "idx_timer_outbox_deferred_retry"
	byParked       = "timer_outbox_parked_pkey"
	byParkedTenant = "idx_timer_outbox_parked_tenant"
	byLog          = "timer_numbers_pkey"
	byWritten      = "idx_timer_numbers_seq"
	byMessage      = "timer_inbox_pkey"
	byInboxRetry   = "idx_timer_inbox_retry"
	byInboxNumber  = "idx_timer_inbox_number"
	byApplied      = "idx_timer_inbox_applied"
	byAwaited      = "timer_awaited_pkey"
	byAwaitedUntil = "idx_timer_awaited_until"
	folded         = "idx_timer_counts_folded"
	fresh          = "idx_timer_counts_fresh"
)

var (
	texts  = []string{"tenant-1", "tenant-2"}
	longs  = []int64{1, 2}
	ints   = []int32{1, 2}
	shorts = []int16{0, -1}
	times  = []time.Time{noon, noon}
	bytes  = [][]byte{{1}, {2}}
	places = []pgtype.TID{{BlockNumber: 1, OffsetNumber: 1, Valid: true}, {BlockNumber: 2, OffsetNumber: 1, Valid: true}}
	later  = noon.Add(30 * time.Minute)
)

// jsonRows are rows of timers.
const jsonRows = `[{"tenant_id":"tenant-1","service_call_id":"call-1","place":"(1,1)"},{"tenant_id":"tenant-2","service_call_id":"call-2","place":"(2,1)"}]`

// plans has every statement on our tables. Those without a way only add rows, or
// find them by the conflict with what they would add.
var plans = map[string]plan{
	"new":                 {[]any{jsonRows}, nil},
	"schedule_again":      {[]any{jsonRows}, []string{byPlace}},
	"cancel_again":        {[]any{jsonRows}, []string{byPlace}},
	"fired":               {[]any{jsonRows}, []string{byPlace}},
	"lock_briefly":        {nil, []string{byAwaitedUntil}},
	"await":               {[]any{jsonRows}, []string{byAwaitedUntil}},
	"awaited":             {[]any{jsonRows}, []string{byAwaited}},
	"status":              {[]any{jsonRows}, []string{byKey}},
	"append":              {[]any{texts, bytes, texts, longs, int32(0)}, nil},
	"correlated":          {[]any{"request-7", int64(100)}, []string{"idx_timer_schedules_correlation_id"}},
	"counts":              {[]any{"tenant-1"}, []string{folded, fresh}},
	"delete":              {[]any{int32(0), longs, longs, int64(1), int64(2)}, []string{byNumber}},
	"delete_deferred":     {[]any{int32(0), longs, longs, int64(1), int64(2)}, []string{byDeferred}},
	"due_counts":          {[]any{later, int64(100), noon}, []string{byDue}},
	"claim":               {[]any{int32(0), "call-", "call-\x7f", int64(100)}, []string{byDeferred, byRetry}},
	"unclaimed":           {[]any{int64(100)}, []string{byRetry, "pg_database_datname_index"}},
	"defer":               {[]any{int32(0), longs, texts, texts, times, ints, shorts}, []string{byNumber}},
	"defer_again":         {[]any{int32(0), longs, texts, texts, times, ints, shorts}, []string{byDeferred}},
	"deferred":            {[]any{int32(0), noon, "", int64(100), int64(10)}, []string{byRetry, byRetry, byRetry}},
	"next_retry":          {[]any{int32(0), noon}, []string{byRetry, byRetry, byRetry}},
	"failing":             {[]any{int64(100), int64(1000)}, []string{byRetry, byRetry, byRetry}},
	"unpublished":         {nil, []string{byNumber}},
	"advance":             {[]any{texts, texts, texts, longs}, nil},
	"history":             {nil, []string{byWritten}},
	"started":             {nil, []string{byWritten}},
	"trim_numbers":        {[]any{texts, texts, texts}, []string{byPlace, byLog, byLog}},
	"fold":                {[]any{int64(1000)}, []string{byPlace, byPlace, folded, fresh}},
	"fresh":               {nil, []string{fresh}},
	"get":                 {[]any{"tenant-1", "call-1"}, []string{byKey}},
	"first":               {[]any{int32(0)}, []string{byNumber}},
	"head":                {[]any{int32(0), int64(0), int64(100)}, []string{byNumber}},
	"list":                {[]any{"tenant-1", "", "Canceled", &noon, &later, "request-7", int64(101), int64(timer.PageWalk), "\x7f"}, []string{byKey}},
	"next_due":            {[]any{time.Time{}, noon}, []string{byDue}},
	"hasten":              {[]any{int32(0), noon, int64(100)}, []string{byPlace, byRetry, byRetry, byRetry}},
	"abandoned":           {nil, []string{byNumber, byDeferred}},
	"number":              {[]any{int32(0)}, nil},
	"numbered":            {nil, []string{byNumber, byDeferred, byParked}},
	"park":                {[]any{int32(0), int64(1), "refused", noon}, []string{byNumber}},
	"park_deferred":       {[]any{int32(0), int64(1), "refused", noon}, []string{byDeferred}},
	"delivery":            {[]any{"id", int64(100)}, []string{byNumber, byDeferred, "timer_outbox_parked_pkey"}},
	"overdue":             {[]any{later, int64(100)}, []string{byDue}},
	"overdue_tenant":      {[]any{later, int64(100), "tenant-1"}, []string{byTenant}},
	"upcoming":            {[]any{noon, int64(60_000), int64(60), int64(100)}, []string{byDue}},
	"upcoming_tenant":     {[]any{noon, int64(60_000), int64(60), int64(100), "tenant-1"}, []string{byTenant}},
	"parked":              {[]any{int64(1), int64(100)}, []string{byParked}},
	"parked_tenant":       {[]any{int64(1), int64(100), "tenant-1"}, []string{byParkedTenant}},
	"retry_parked":        {[]any{longs, noon, int32(0)}, []string{byParked}},
	"discard_parked":      {[]any{longs}, []string{byParked}},
	"decision_published":  {[]any{"tenant-1", "firing", noon}, []string{"timer_decisions_pkey"}},
	"forget":              {[]any{"tenant-1", noon, int64(100)}, []string{byKey, byKey}},
	"forget_parked":       {[]any{"tenant-1", noon, int64(100)}, []string{byPlace, byParkedTenant}},
	"soonest":             {[]any{later, noon, places[0], int64(100)}, []string{byDue}},
	"resume":              {[]any{"tenant-1"}, []string{"timer_firing_pkey"}},
	"over_from":           {[]any{noon, places[0], int64(100)}, []string{"idx_timer_schedules_over"}},
	"purge":               {[]any{later, int64(500)}, []string{byPlace, "idx_timer_schedules_over"}},
	"reach":               {[]any{later, int64(100), true, noon}, []string{byPlace, byDue, byDue, byAwaitedUntil, byAwaited}},
	"reach_shares":        {[]any{later, texts, longs, noon}, []string{byPlace, byTenant, byAwaitedUntil, byAwaited}},
	"take":                {[]any{int32(0), int64(7)}, []string{byNumber}},
	"take_deferred":       {[]any{int32(0), int64(7)}, []string{byDeferred}},
	"stats":               {nil, []string{byDue, folded, fresh, byNumber, "idx_timer_outbox_deferred_oldest", "timer_outbox_parked_pkey"}},
	"tenant_counts":       {[]any{"tenant-1", int64(100)}, []string{folded, folded, fresh, fresh}},
	"inbox_put":           {[]any{texts, texts, longs, texts, texts, texts, texts, bytes, ints, longs, texts, ints, texts, longs}, nil},
	"inbox_replace":       {[]any{"log", int64(7)}, []string{byInboxNumber}},
	"inbox_due":           {[]any{noon, "tenant-1", int64(100), int64(10), texts}, []string{byInboxRetry, byInboxRetry}},
	"inbox_take":          {[]any{noon, texts, longs, later}, []string{byPlace, byInboxRetry}},
	"inbox_defer":         {[]any{longs, longs, texts, ints, texts}, []string{byMessage}},
	"inbox_delete":        {[]any{longs}, []string{byMessage}},
	"inbox_next":          {nil, []string{byInboxRetry}},
	"inbox_waiting":       {[]any{int64(0), int64(100)}, []string{byMessage}},
	"inbox_counts":        {nil, []string{byInboxRetry}},
	"inbox_counts_tenant": {[]any{"tenant-1"}, []string{byInboxRetry}},
	"inbox_applied":       {[]any{"tenant-1", int64(0)}, []string{byApplied}},
	"inbox_numbers":       {[]any{"log", longs}, []string{byInboxNumber}},
	"inbox_forget":        {[]any{"tenant-1", noon, int64(100)}, []string{byMessage, byInboxRetry, byApplied}},
	"inbox_purgeable":     {[]any{noon, int64(100)}, []string{byApplied, byApplied, byInboxRetry, byInboxNumber, "timer_numbers_pkey", "timer_numbers_pkey"}},
	"tenants":             {[]any{later, "tenant-1", int64(1000), int64(100), noon}, []string{byTenant}},
}

// whole are statements that read or write all there is, while no caller waits.
var whole = []string{"attach", "broker", "decide", "decisions", "fired_outbox", "firing", "forget_outbox", "inbox_hasten", "known", "identity", "join", "pause", "registered_before", "unreferenced"}

// notOurs are statements that touch none of our tables.
var notOurs = []string{"alone", "check", "checksums", "compatible", "exists", "instances", "leave", "lock", "lock_soon", "lock_tables", "migratable", "node", "nodes", "now", "others", "own", "parents", "product", "timeouts", "reference", "renumber", "server", "settings", "tables", "take_over", "try_lock", "version"}

// TestPlans explains every statement on a populated database, before and after it
// knows statistics, and with statistics of a time when it was empty: the server
// collects them when it likes. It does so for the arguments given and, as for a
// statement that is prepared, for any.
func TestPlans(t *testing.T) {
	t.Parallel()
	s := openAt(t, pgtest.URL(t), relaxed)
	files, err := queries.ReadDir("query")
	must(t, err)
	names := slices.Sorted(maps.Keys(plans))
	for _, file := range files {
		name := strings.TrimSuffix(file.Name(), ".sql")
		if _, known := plans[name]; !known && !slices.Contains(notOurs, name) && !slices.Contains(whole, name) {
			t.Errorf("%s is in no plan test", name)
		}
	}
	explainAll := func(when string) {
		for _, name := range names {
			want := slices.Sorted(slices.Values(plans[name].uses))
			for kind, got := range map[string][]string{
				"": explain(t, s, name, plans[name].args), ", prepared": explainPrepared(t, s, name, len(plans[name].args)),
			} {
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s, %s%s (-want +got):\n%s", name, when, kind, diff)
				}
			}
		}
	}
	explainAll("empty")
	analyze(t, s)
	storetest.Populate(t, s)
	explainAll("with statistics of an empty table")
	analyze(t, s)
	explainAll("analyzed")
	foldNow(t, s)
	explainAll("folded")
}

func analyze(t *testing.T, s *Store) {
	t.Helper()
	run(t, s, `ANALYZE timer_schedules, timer_outbox, timer_outbox_deferred, timer_outbox_parked, timer_counts, timer_inbox, timer_numbers, timer_firing, timer_decisions`)
}

// textOf returns a statement by the name of its file, or, with _deferred behind the name,
// the same on deferred rows.
func textOf(name string) string {
	if base, deferred := strings.CutSuffix(name, "_deferred"); deferred {
		return store.OnBoth(query(base)).Deferred
	}
	return query(name)
}

// explain returns the ways by which a statement comes to rows of our tables,
// sorted.
func explain(t *testing.T, s *Store, name string, args []any) []string {
	t.Helper()
	return ways(t, s, name, step{text: "EXPLAIN (FORMAT JSON) " + textOf(name), args: args})
}

// explainPrepared is explain for a plan that was made without the arguments.
func explainPrepared(t *testing.T, s *Store, name string, args int) []string {
	t.Helper()
	execute := "EXPLAIN (FORMAT JSON) EXECUTE explained"
	if args > 0 {
		execute += "(NULL" + strings.Repeat(", NULL", args-1) + ")"
	}
	return ways(t, s, name, step{text: "SET LOCAL plan_cache_mode = force_generic_plan"}, step{text: "PREPARE explained AS " + textOf(name)},
		step{text: execute}, step{text: "DEALLOCATE explained"})
}

// ways runs statements, of which one explains another. It fails the test if there
// is a scan of a table, or if rows of a table are sorted: those of what was
// claimed, counted or given as an argument may be.
func ways(t *testing.T, s *Store, name string, steps ...step) (ways []string) {
	t.Helper()
	var text []byte
	err := s.transact(t.Context(), func(ctx context.Context, tx *transaction) error {
		for i := range steps {
			steps[i].each = func(row store.Scanner) error {
				var part []byte
				err := row.Scan(&part)
				text = append(text, part...)
				return err
			}
			tx.later(steps[i])
		}
		tx.later(step{text: rollback})
		return nil
	})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	var plans []struct{ Plan node }
	if err := json.Unmarshal(text, &plans); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, text)
	}
	for _, p := range plans {
		p.Plan.walk(func(n node) {
			switch {
			case n.Type == "Seq Scan" || n.Type == "Bitmap Heap Scan":
				t.Errorf("%s scans %s:\n%s", name, n.Relation, text)
			case n.Index != "":
				ways = append(ways, n.Index)
			case n.Type == byPlace || n.Type == "Tid Range Scan":
				ways = append(ways, n.Type)
			case (n.Type == "Sort" || n.Type == "Incremental Sort") && n.readsTable():
				t.Errorf("%s sorts rows of a table:\n%s", name, text)
			}
		})
	}
	slices.Sort(ways)
	return ways
}

// A node is a part of a plan, as far as it matters.
type node struct {
	Type     string `json:"Node Type"`
	Relation string `json:"Relation Name"`
	Index    string `json:"Index Name"`
	Parent   string `json:"Parent Relationship"`
	Plans    []node
}

func (n node) walk(visit func(node)) {
	visit(n)
	for _, part := range n.Plans {
		part.walk(visit)
	}
}

// readsTable reports whether what comes up from below is rows of a table, rather
// than the result of an expression that was computed before.
func (n node) readsTable() bool {
	for _, part := range n.Plans {
		if part.Parent != "InitPlan" && part.Parent != "SubPlan" && (part.Relation != "" || part.readsTable()) {
			return true
		}
	}
	return false
}

// TestClaimOfATenantReadsNothingThatWaits has a tenant with two due timers, and many that
// are not.
func TestClaimOfATenantReadsNothingThatWaits(t *testing.T) {
	t.Parallel()
	s := openAt(t, pgtest.URL(t), relaxed)
	run(t, s, `
		INSERT INTO timer_schedules (tenant_id, service_call_id, command_at, command_id, due_at, registered_at, state)
		SELECT 'tenant-1', n, 0, 'command', $1::timestamptz + n * interval '1 minute', $1, 'Scheduled' FROM generate_series(-1, 20000) AS n`, noon)
	if rows, blocks := explained(t, s, "reach_shares", noon, []string{"tenant-1"}, []int64{10}, noon.Add(-time.Hour)); rows != 2 || blocks > 60 {
		t.Errorf("claimed %d timers and read %d blocks, want 2, and no more than 60", rows, blocks)
	}
}

// TestATenantWithManyMessagesDelaysNoOther takes from an inbox with a hundred thousand messages
// of one tenant, and three of each of a thousand others.
func TestATenantWithManyMessagesDelaysNoOther(t *testing.T) {
	t.Parallel()
	s := openAt(t, pgtest.URL(t), relaxed)
	run(t, s, `
		INSERT INTO timer_inbox (tenant_id, topic, position, message_id, headers, body, bytes, arrived_at, reason, retry_at)
		SELECT CASE WHEN n < 100000 THEN 'great' ELSE 'tenant-' || n % 1000 END, 'commands', '', n, '{}', 'body', 6, $1, 'failed', $1
		  FROM generate_series(0, 102999) AS n`, noon)
	for _, c := range []struct {
		name         string
		args         []any
		rows, blocks int
	}{
		{"inbox_due", []any{noon, "", int64(256), int64(64), []string{}}, 256, 256 * 12},
		{"inbox_due", []any{noon.Add(-time.Second), "", int64(256), int64(64), []string{}}, 0, 1001 * 5},
		{"inbox_next", nil, 1, 1001 * 5},
		{"inbox_take", []any{noon, []string{"great", "tenant-7"}, []int64{64, 64}, later}, 67, 67 * 30},
	} {
		if rows, blocks := explained(t, s, c.name, c.args...); rows != c.rows || blocks > c.blocks {
			t.Errorf("%s returned %d rows and read %d blocks, want %d, and no more than %d", c.name, rows, blocks, c.rows, c.blocks)
		}
	}
}

// explained runs a statement, and rolls it back. It returns how many rows it had, and how
// many blocks it read.
func explained(t *testing.T, s *Store, name string, args ...any) (rows, blocks int) {
	t.Helper()
	var plans []struct {
		Plan struct {
			Rows float64 `json:"Actual Rows"` // the mean of all loops: from PostgreSQL 18 on with decimals
			Hit  int     `json:"Shared Hit Blocks"`
			Read int     `json:"Shared Read Blocks"`
		}
	}
	must(t, s.transact(t.Context(), func(ctx context.Context, tx *transaction) error {
		err := tx.rows(ctx, "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+query(name), args, store.Scan(&plans))
		return errors.Join(err, tx.now(ctx, step{text: rollback}))
	}))
	return int(plans[0].Plan.Rows), plans[0].Plan.Hit + plans[0].Plan.Read
}

// TestASnapshotSlowsNoTimer has a foreign transaction hold a snapshot, so that no
// row that died can be removed, while timers are scheduled, fire, and are published.
func TestASnapshotSlowsNoTimer(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s, other := openAt(t, url, relaxed), openAt(t, url, relaxed)
	held, err := other.db.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	must(t, err)
	defer func() { must(t, held.Rollback()) }()
	_, err = held.ExecContext(t.Context(), `SELECT count(*) FROM timer_schedules`)
	must(t, err)

	const rounds = 400
	last, due := int64(0), noon
	for i := range rounds {
		must(t, s.Advance(t.Context(), timer.Number{Log: "log", Kind: timer.LogCommands, Number: int64(i)}))
		due = noon.Add(time.Duration(i) * time.Second)
		_, err := s.Schedule(t.Context(), noon, timer.ScheduleTimer{
			Key: timer.Key{TenantID: "tenant-1", ServiceCallID: timer.ServiceCallID(fmt.Sprint("call-", i))}, Version: timer.Version{CommandID: "c"}, DueAt: due,
		})
		must(t, err)
		must(t, s.Update(t.Context(), func(tx timer.Tx) error {
			entries, err := tx.Reach(t.Context(), due, 1, nil)
			must(t, err)
			return tx.Emit(t.Context(), entries[0].Event())
		}))
		rows, err := s.Head(t.Context(), last, 10)
		must(t, err)
		last = rows[0].Seq
		must(t, s.Delete(t.Context(), rows[0].Place))
	}
	must(t, s.trim(t.Context()))
	for name, args := range map[string][]any{
		"append":       {texts, bytes, texts, longs, int32(0)},
		"delete":       {int32(0), []int64{last + 1}, []int64{last + 2}, last + 1, last + 2},
		"due_counts":   {later, int64(100), due},
		"head":         {int32(0), last, int64(100)},
		"next_due":     {time.Time{}, due},
		"history":      nil,
		"failing":      {int64(100), int64(1000)},
		"unpublished":  nil,
		"advance":      {[]string{""}, []string{"log"}, []string{"commands"}, []int64{rounds}},
		"reach":        {later, int64(100), true, due},
		"reach_shares": {later, texts, longs, due},
		"tenants":      {later, "", int64(1000), int64(100), due},
	} {
		if _, blocks := explained(t, s, name, args...); blocks > rounds/8 {
			t.Errorf("%s read %d blocks after %d timers", name, blocks, rounds)
		}
	}
}
