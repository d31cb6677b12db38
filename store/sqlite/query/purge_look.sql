-- The next ?2 timers after rowid ?1: the last rowid, how many they are, and how
-- many of them were over before ?3. Seeks the rowid.
SELECT max(id), count(*), count(*) FILTER (WHERE coalesce(reached_at, canceled_at) < ?3)
  FROM (SELECT rowid AS id, reached_at, canceled_at
          FROM timer_schedules
         WHERE rowid > ?1
         ORDER BY rowid
         LIMIT ?2)
