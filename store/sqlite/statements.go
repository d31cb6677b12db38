package sqlite

import (
	"embed"
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
	sqlLock          = query("lock")
	sqlScheduleNew   = query("schedule_new")
	sqlScheduleAgain = query("schedule_again")
	sqlCancel        = query("cancel")
	sqlCancelAgain   = query("cancel_again")
	sqlStanding      = query("standing")
	sqlNextDue       = query("next_due")
	sqlCrowded       = query("crowded")
	sqlReach         = query("reach")
	sqlReachTenant   = query("reach_tenant")
	sqlTenants       = query("tenants")
	sqlGet           = query("get")
	sqlList          = query("list")
	sqlCorrelated    = query("correlated")
	sqlStats         = query("stats")
	sqlPurgeLook     = query("purge_look")
	sqlPurge         = query("purge")
	sqlAppend        = query("append")
	sqlHead          = query("head")
	sqlDelete        = query("delete")
	sqlFail          = query("fail")
	sqlPark          = query("park")
)

// chunk is how many rows one statement writes. More gain nothing, and make the
// text longer that SQLite must compile for the odd rest (measured 2026-11).
const chunk = 50

var (
	sqlAppendChunk = repeatValues(sqlAppend, chunk)
	sqlDeleteChunk = repeatList(sqlDelete, 10*chunk)
)

// repeatValues returns an INSERT of one row as one of n rows.
func repeatValues(text string, n int) string {
	begin := strings.Index(text, "VALUES (") + len("VALUES ")
	end := begin + strings.Index(text[begin:], ")") + 1
	row := text[begin:end]
	return text[:begin] + row + strings.Repeat(", "+row, n-1) + text[end:]
}

// repeatList returns a statement with IN (?) as one with n items.
func repeatList(text string, n int) string {
	return strings.Replace(text, "(?)", "(?"+strings.Repeat(",?", n-1)+")", 1)
}

// writing are the statements worth preparing.
var writing = []string{
	sqlLock, sqlScheduleNew, sqlScheduleAgain, sqlCancel, sqlCancelAgain, sqlStanding,
	sqlCrowded, sqlTenants, sqlReach, sqlReachTenant, sqlAppend, sqlAppendChunk, sqlDeleteChunk,
}
