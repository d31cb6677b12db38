-- Read when the oldest event was appended that is not deferred. Reads the first row.
SELECT max(appended_at)
  FROM (SELECT appended_at FROM timer_outbox ORDER BY seq LIMIT 1)
