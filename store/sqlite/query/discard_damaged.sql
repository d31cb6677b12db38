-- Delete a damaged row. Seeks the rowid.
DELETE FROM timer_damaged
 WHERE seq = ?1
