package sqlite

import (
	"embed"
	"slices"
	"strings"
)

//go:embed query/*.sql
var queries embed.FS

// query returns the text of a statement by the name of its file.
func query(name string) string {
	text, err := queries.ReadFile("query/" + name + ".sql")
	if err != nil {
		panic("sqlite: " + err.Error()) // the file is embedded
	}
	return strings.TrimSpace(string(text))
}

var (
	sqlLock            = query("lock")
	sqlScheduleNew     = query("schedule_new")
	sqlScheduleAgain   = query("schedule_again")
	sqlCancel          = query("cancel")
	sqlTombstone       = query("tombstone")
	sqlCancelAgain     = query("cancel_again")
	sqlStatus          = query("status")
	sqlNextDue         = query("next_due")
	sqlFindNextDue     = query("find_next_due")
	sqlNextDueDiffers  = query("next_due_differs")
	sqlCorrectNextDue  = query("correct_next_due")
	sqlBacklogged      = query("backlogged")
	sqlDue             = query("due")
	sqlDueTenant       = query("due_tenant")
	sqlMark            = query("mark")
	sqlDueTenants      = query("due_tenants")
	sqlTenants         = query("tenants")
	sqlGet             = query("get")
	sqlList            = query("list")
	sqlCorrelated      = query("correlated")
	sqlSoonest         = query("soonest")
	sqlSoonestTenants  = query("soonest_tenants")
	sqlRows            = query("rows")
	sqlOverdue         = query("overdue")
	sqlOverdueTenant   = query("overdue_tenant")
	sqlDelivery        = query("delivery")
	sqlUpcoming        = query("upcoming")
	sqlUpcomingMany    = query("upcoming_many")
	sqlUpcomingTenant  = query("upcoming_tenant")
	sqlSetAside        = query("set_aside")
	sqlSetAsideCount   = query("set_aside_count")
	sqlSetAsideDelete  = query("set_aside_delete")
	sqlStateless       = query("stateless")
	sqlDamaged         = query("damaged")
	sqlDiscardDamaged  = query("discard_damaged")
	sqlParked          = query("parked")
	sqlParkedTenant    = query("parked_tenant")
	sqlFiring          = query("firing")
	sqlPause           = query("pause")
	sqlResume          = query("resume")
	sqlRetryParked     = query("retry_parked")
	sqlDiscardParked   = query("discard_parked")
	sqlForget          = query("forget")
	sqlForgetParked    = query("forget_parked")
	sqlForgetDamaged   = query("forget_damaged")
	sqlStats           = query("stats")
	sqlWalkEnd         = query("walk_end")
	sqlCount           = query("count")
	sqlCounts          = query("counts")
	sqlUncount         = query("uncount")
	sqlRecount         = query("recount")
	sqlTenantCounts    = query("tenant_counts")
	sqlOver            = query("over")
	sqlPurge           = query("purge")
	sqlAppend          = query("append")
	sqlHead            = query("head")
	sqlDelete          = query("delete")
	sqlDeferred        = query("deferred")
	sqlDefer           = query("defer")
	sqlDeferAgain      = query("defer_again")
	sqlDeleteDeferred  = query("delete_deferred")
	sqlPark            = query("park")
	sqlDumpTimers      = query("dump_timers")
	sqlDumpOutbox      = query("dump_outbox")
	sqlDumpParked      = query("dump_parked")
	sqlEmpty           = query("empty")
	sqlInspect         = query("inspect")
	sqlIndexes         = query("indexes")
	sqlIdentity        = query("identity")
	sqlNote            = query("note")
	sqlNoted           = query("noted")
	sqlForgetPositions = query("forget_positions")
	sqlBeginRecovery   = query("begin_recovery")
	sqlEndRecovery     = query("end_recovery")
	sqlFired           = query("fired")
	sqlFiredNew        = query("fired_new")
	sqlFiredOutbox     = query("fired_outbox")
	sqlFiredDeferred   = query("fired_deferred")
	sqlLoadTimers      = query("load_timers")
	sqlLoadOutbox      = query("load_outbox")
	sqlLoadParked      = query("load_parked")
	sqlLoadCount       = query("load_count")
)

// How a transaction on the store's own connection begins and ends.
const (
	sqlBegin    = "BEGIN IMMEDIATE"
	sqlCommit   = "COMMIT"
	sqlRollback = "ROLLBACK"
)

// appendRows is how many events a statement adds to the outbox at most, firedRows how
// many that were published it brings in.
const (
	appendRows = 50
	fewRows    = 8 // events that fire together in a quiet service: those statements are prepared, too
	firedRows  = 50
)

var (
	sqlFiredChunk     = repeatValues(sqlFired, firedRows)
	sqlFiredNewChunk  = repeatValues(sqlFiredNew, firedRows)
	sqlAppends        = appends()
	sqlScheduleChunks = scheduleChunks()
	sqlMarkChunks     = markChunks()
)

func scheduleChunks() (texts [len(scheduleRows)]string) {
	for i, n := range scheduleRows {
		texts[i] = repeatValues(sqlScheduleNew, n)
	}
	return texts
}

// appends are the statements that add events to the outbox, by their number less one.
func appends() (texts [appendRows]string) {
	for i := range texts {
		texts[i] = repeatValues(sqlAppend, i+1)
	}
	return texts
}

// markSizes are how many timers the prepared statements mark.
var markSizes = [...]int{1, 16, 128, 1000}

func markChunks() (texts [len(markSizes)]string) {
	for i, n := range markSizes {
		texts[i] = strings.Replace(sqlMark, "(?)", "(?"+strings.Repeat(",?", n-1)+")", 1)
	}
	return texts
}

// repeatValues returns an INSERT of one row as one of n rows.
func repeatValues(text string, n int) string {
	begin := strings.Index(text, "VALUES (") + len("VALUES ")
	end := begin + strings.Index(text[begin:], ")") + 1
	row := text[begin:end]
	return text[:begin] + row + strings.Repeat(", "+row, n-1) + text[end:]
}

// writing are the statements worth preparing.
var writing = slices.Concat([]string{
	sqlBegin, sqlCommit, sqlRollback, sqlLock, sqlScheduleAgain, sqlCancel, sqlTombstone, sqlCancelAgain, sqlStatus,
	sqlCount, sqlBacklogged, sqlDueTenants, sqlTenants, sqlDue, sqlDueTenant, sqlDelete, sqlDefer, sqlDeferAgain, sqlDeleteDeferred,
	sqlNote, sqlFiredChunk, sqlFiredNewChunk, sqlFiredOutbox, sqlFiredDeferred,
}, sqlScheduleChunks[:], sqlMarkChunks[:], sqlAppends[:fewRows], sqlAppends[appendRows-1:])
