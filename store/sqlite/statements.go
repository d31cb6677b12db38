package sqlite

import (
	"embed"
	"slices"
	"strings"

	"github.com/event-service-agent/timer-service/store"
)

//go:embed query/*.sql
var queries embed.FS

// query returns the text of a statement by the name of its file.
func query(name string) string {
	text, err := queries.ReadFile("query/" + name + ".sql")
	if err != nil {
		panic("sqlite: " + err.Error()) // the file is embedded
	}
	return store.Columns(strings.TrimSpace(string(text)))
}

var (
	sqlLock           = query("lock")
	sqlStatus         = query("status")
	sqlPut            = store.ByKind{store.Schedules: query("schedule"), store.Cancels: query("cancel"), store.Events: query("fired")}
	sqlParents        = query("parents")
	sqlReferenced     = query("referenced")
	sqlNextDue        = query("next_due")
	sqlCorrectNextDue = query("correct_next_due")
	sqlBacklogged     = query("backlogged")
	sqlDue            = query("due")
	sqlDueTenant      = query("due_tenant")
	sqlMark           = query("mark")
	sqlDueTenants     = query("due_tenants")
	sqlTenants        = query("tenants")
	sqlList           = query("list")
	sqlSoonest        = query("soonest")
	sqlSoonestTenants = query("soonest_tenants")
	sqlRows           = query("rows")
	sqlOverFrom       = query("over_from")
	sqlUpcomingMany   = query("upcoming_many")
	sqlRetryParked    = query("retry_parked")
	sqlWalkEnd        = query("walk_end")
	sqlCount          = query("count")
	sqlOver           = query("over")
	sqlPurge          = query("purge")
	sqlAppend         = query("append")
	sqlNumbered       = query("numbered")
	sqlTriggers       = query("triggers")
	sqlRenumber       = query("renumber")
	sqlHead           = query("head")
	sqlDelete         = store.OnBoth(query("delete"))
	sqlDeferred       = query("deferred")
	sqlNextRetry      = query("next_retry")
	sqlDefer          = store.OutboxStatement{Head: query("defer"), Deferred: query("defer_again")}
	sqlPark           = store.OnBoth(query("park"))
	sqlHasten         = query("hasten")
	sqlClaim          = query("claim")
	sqlClaimed        = query("claimed")
	sqlInspect        = query("inspect")
	sqlIdentity       = query("identity")
	sqlAdvance        = query("advance")
	sqlWritten        = query("written")
	sqlWrites         = query("writes")
	sqlFiredOutbox    = store.OnBoth(query("fired_outbox"))
	sqlInboxPut       = query("inbox_put")
	sqlInboxReplace   = query("inbox_replace")
	sqlInboxDueTenant = query("inbox_due_tenant")
	sqlInboxClaim     = query("inbox_claim")
	sqlInboxDefer     = query("inbox_defer")
)

// Every database has statements of these names.
var (
	statements      = store.StatementsOf(query)
	changes         = store.ChangesOf(query)
	inboxStatements = store.InboxStatementsOf(query)
)

// deletesEvents has the statements that take events out of the outbox.
var deletesEvents = map[string]bool{
	sqlDelete.Head: true, sqlDelete.Deferred: true, sqlFiredOutbox.Head: true, sqlFiredOutbox.Deferred: true,
	changes.ForgetOutbox.Head: true, changes.ForgetOutbox.Deferred: true,
}

// rowsAtOnce are the numbers of rows for which an insertion is prepared. Many rows with one
// statement, in the order of their keys, take a third less time than one by one, and a statement
// that is not prepared takes longer than its rows (measured 2026-11).
var rowsAtOnce = [...]int{50, 5, 1}

// An insertion adds rows, as many at once as it is prepared for.
type insertion struct {
	columns int
	texts   [len(rowsAtOnce)]string
}

// insertionOf returns the insertion of an INSERT of one row.
func insertionOf(text string) insertion {
	begin := strings.Index(text, "VALUES (") + len("VALUES ")
	end := begin + strings.Index(text[begin:], ")") + 1
	row := text[begin:end]
	i := insertion{columns: strings.Count(row, "?")}
	for n, rows := range rowsAtOnce {
		i.texts[n] = text[:begin] + row + strings.Repeat(", "+row, rows-1) + text[end:]
	}
	return i
}

// These are the insertions.
var (
	puts = [...]insertion{
		store.Schedules: insertionOf(sqlPut[store.Schedules]), store.Cancels: insertionOf(sqlPut[store.Cancels]), store.Events: insertionOf(sqlPut[store.Events]),
	}
	appends   = insertionOf(sqlAppend)
	inboxPuts = insertionOf(sqlInboxPut)
)

// writing lists the writing statements that are prepared once. Prepared, 74,000 timers a second
// are stored in batches of 2,000, and 35,000 in batches of 100; unprepared, 50,000 and 17,000
// (BenchmarkSQLite/schedule, measured 2026-11).
var writing = slices.Concat(puts[store.Schedules].texts[:], puts[store.Cancels].texts[:], puts[store.Events].texts[:], appends.texts[:], inboxPuts.texts[:], []string{
	sqlLock, sqlStatus, sqlCount, sqlBacklogged, sqlDueTenants, sqlTenants, sqlDue, sqlDueTenant, sqlMark, sqlDelete.Head, sqlDelete.Deferred, sqlDefer.Head, sqlDefer.Deferred,
	sqlFiredOutbox.Head, sqlFiredOutbox.Deferred, sqlInboxDueTenant, sqlInboxClaim, sqlInboxDefer,
})

// polling lists the reading statements that are prepared once, because they run many times a
// second. Preparing one takes longer than running it.
var polling = []string{sqlNextDue, sqlHead, sqlDeferred, sqlNextRetry}

// values returns the columns of a timer as arguments, in the order of [store.Columns].
func values(r *store.Row) []any {
	return []any{
		string(r.TenantID), string(r.ServiceCallID), r.CommandAt, r.CommandID, string(r.State), r.RegisteredAt,
		orNull(r.DueAt), orNull(r.ExpiresAt), orNull(r.ReachedAt), orNull(r.CanceledAt),
		orNull(r.CorrelationID), orNull(r.TraceParent), orNull(r.TraceState), orNull(r.Data),
	}
}
