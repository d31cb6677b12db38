-- Forget a row that was set aside. Seeks the rowid.
DELETE FROM timer_damaged
 WHERE seq = ?1
