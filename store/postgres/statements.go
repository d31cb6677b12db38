package postgres

import (
	"embed"
	"strings"

	"github.com/event-service-agent/timer-service/store"
)

//go:embed query/*.sql
var queries embed.FS

// query returns the text of a statement by the name of its file.
func query(name string) string {
	text, err := queries.ReadFile("query/" + name + ".sql")
	if err != nil {
		panic("postgres: " + err.Error()) // the file is embedded
	}
	return store.Columns(strings.TrimSpace(string(text)))
}

// checkWith returns check.sql with the statements that it is made of.
func checkWith(history string) string {
	return strings.NewReplacer("{server}", sqlServer, "{tables}", sqlTables, "{version}", sqlVersion, "{history}", history).Replace(query("check"))
}

// historyOf returns history.sql. With Relaxed a crash of the server may take the last commits. Then the
// position is the one up to which the log is written in memory, so that the loss can be noticed.
func historyOf(d Durability) string {
	if d == Strict {
		return query("history")
	}
	return strings.ReplaceAll(query("history"), "pg_current_wal_flush_lsn", "pg_current_wal_insert_lsn")
}

var (
	sqlSettings     = query("settings")
	sqlProduct      = query("product")
	sqlServer       = query("server")
	sqlCheck        = [...]string{Strict: checkWith(sqlHistory[Strict]), Relaxed: checkWith(sqlHistory[Relaxed])}
	sqlCheckStarted = checkWith(sqlStarted)
	sqlLockSoon     = query("lock_soon")
	sqlLockTables   = query("lock_tables")
	sqlExists       = query("exists")
	sqlMigratable   = query("migratable")
	sqlVersion      = query("version")
	sqlCompatible   = query("compatible")
	sqlTimeouts     = query("timeouts")
	sqlLock         = query("lock")
	sqlTryLock      = query("try_lock")
	sqlOwn          = query("own")
	sqlAbandoned    = query("abandoned")
	sqlTakeOver     = query("take_over")
	sqlNumber       = query("number")
	sqlNumbered     = query("numbered")
	sqlRenumber     = query("renumber")
	sqlInstances    = query("instances")
	sqlNow          = query("now")
	sqlIdentity     = query("identity")
	sqlAdvance      = query("advance")
	sqlTrimNumbers  = query("trim_numbers")
	sqlHistory      = [...]string{Strict: historyOf(Strict), Relaxed: historyOf(Relaxed)}
	sqlStarted      = query("started")
	sqlAlone        = query("alone")
	sqlFiredOutbox  = query("fired_outbox")
	sqlBroker       = query("broker")
	sqlAttach       = query("attach")
	sqlNew          = query("new")
	sqlStatus       = query("status")
	sqlLockBriefly  = query("lock_briefly")
	sqlAwait        = query("await")
	sqlAwaited      = query("awaited")
	sqlAgain        = store.ByKind{store.Schedules: query("schedule_again"), store.Cancels: query("cancel_again"), store.Events: query("fired")}
	sqlParents      = query("parents")
	sqlJoin         = query("join")
	sqlLeave        = query("leave")
	sqlTake         = store.OnBoth(query("take"))
	sqlReference    = query("reference")
	sqlUnreferenced = query("unreferenced")
	sqlReach        = query("reach")
	sqlReachShares  = query("reach_shares")
	sqlDueCounts    = query("due_counts")
	sqlTenants      = query("tenants")
	sqlNextDue      = query("next_due")
	sqlList         = query("list")
	sqlSoonest      = query("soonest")
	sqlOverFrom     = query("over_from")
	sqlRetryParked  = query("retry_parked")
	sqlNode         = query("node")
	sqlNodes        = query("nodes")
	sqlOthers       = query("others")
	sqlFresh        = query("fresh")
	sqlFold         = query("fold")
	sqlPurge        = query("purge")
	sqlAppend       = query("append")
	sqlFirst        = query("first")
	sqlHead         = query("head")
	sqlDelete       = store.OnBoth(query("delete"))
	sqlDeferred     = query("deferred")
	sqlNextRetry    = query("next_retry")
	sqlDefer        = store.OutboxStatement{Head: query("defer"), Deferred: query("defer_again")}
	sqlPark         = store.OnBoth(query("park"))
	sqlHasten       = query("hasten")
	sqlClaim        = query("claim")
	sqlInboxPut     = query("inbox_put")
	sqlInboxReplace = query("inbox_replace")
	sqlInboxTake    = query("inbox_take")
	sqlInboxDefer   = query("inbox_defer")
)

// Every database has statements of these names.
var (
	statements      = store.StatementsOf(query)
	changes         = store.ChangesOf(query)
	inboxStatements = store.InboxStatementsOf(query)
)
