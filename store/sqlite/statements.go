package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"strings"
	"sync"
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
	sqlSchedule    = query("schedule")
	sqlCancel      = query("cancel")
	sqlStanding    = query("standing")
	sqlNextDue     = query("next_due")
	sqlCrowded     = query("crowded")
	sqlReach       = query("reach")
	sqlReachTenant = query("reach_tenant")
	sqlTenants     = query("tenants")
	sqlGet         = query("get")
	sqlList        = query("list")
	sqlCorrelated  = query("correlated")
	sqlStats       = query("stats")
	sqlPurgeLook   = query("purge_look")
	sqlPurge       = query("purge")
	sqlAppend      = query("append")
	sqlHead        = query("head")
	sqlDelete      = query("delete")
	sqlFail        = query("fail")
	sqlPark        = query("park")
)

// chunk is how many rows one statement writes. More gain nothing, and make the
// text longer that SQLite must compile for the odd rest (measured 2026-11).
const chunk = 50

var (
	sqlScheduleChunk = repeatValues(sqlSchedule, chunk)
	sqlAppendChunk   = repeatValues(sqlAppend, chunk)
	sqlDeleteChunk   = repeatList(sqlDelete, 10*chunk)
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
	sqlSchedule, sqlScheduleChunk, sqlCancel, sqlStanding, sqlCrowded, sqlReach, sqlAppend, sqlAppendChunk, sqlDeleteChunk,
}

// statements are prepared once, before the first transaction: a transaction may
// hold the only connection.
type statements struct {
	mu sync.Mutex
	of map[string]*sql.Stmt // by text; complete or empty
}

func (s *statements) prepare(ctx context.Context, db *sql.DB) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.of) > 0 {
		return nil
	}
	prepared := make(map[string]*sql.Stmt, len(writing))
	for _, text := range writing {
		stmt, err := db.PrepareContext(ctx, text)
		if err != nil {
			for _, p := range prepared {
				_ = p.Close() // the error that counts is err
			}
			return classify("prepare", err)
		}
		prepared[text] = stmt
	}
	s.of = prepared
	return nil
}

// get returns the prepared statement of a text, or nil.
func (s *statements) get(text string) *sql.Stmt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[text]
}

func (s *statements) close() (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, stmt := range s.of {
		err = errors.Join(err, stmt.Close())
	}
	s.of = nil
	return err
}
