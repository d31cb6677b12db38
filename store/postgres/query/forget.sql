-- Delete the first $3 timers of tenant $1, of any state, that were registered until $2, or at
-- any time if that is null, and return how many there were of each state. Waits for rows that
-- another transaction is changing: commands lock timers in the same order. A trigger counts the
-- deleted timers. Seeks the primary key twice, since a timer that it waited for has moved to
-- another place, where a search by place would not find it. Goes over timers that were
-- registered later.
  WITH first AS MATERIALIZED (
       SELECT service_call_id
         FROM timer_schedules
        WHERE tenant_id = $1 AND ($2::timestamptz IS NULL OR registered_at <= $2)
        ORDER BY tenant_id, service_call_id
        LIMIT $3
          FOR UPDATE),
       gone AS (
       DELETE FROM timer_schedules
        WHERE tenant_id = $1 AND service_call_id = ANY (ARRAY (SELECT service_call_id FROM first))
       RETURNING state)
SELECT state, count(*)
  FROM gone
 GROUP BY state
