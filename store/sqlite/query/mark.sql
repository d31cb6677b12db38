-- Mark timers that were read under the same write lock. Seeks the rowids,
-- which are a JSON array. One statement for many goes over each page of the table
-- once: a statement a tenant took three times as long (measured 2026-11).
-- OR FAIL: after an error the transaction is rolled back. To undo the statement alone
-- SQLite would copy each page before its first change (13,200 instead of 19,100 timers
-- a second in BenchmarkSQLite/fire/batch=1000, measured 2026-11).
UPDATE OR FAIL timer_schedules
   SET state = CASE WHEN expires_at <= ?1 THEN 'Expired' ELSE 'Reached' END, reached_at = ?1
 WHERE state = 'Scheduled' AND rowid IN (SELECT value FROM json_each(?2))
