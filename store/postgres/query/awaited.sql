-- Let the timers of the keys in the JSON array $1 fire again, in 2 seconds. Another command for
-- one of them may still wait for a lock: it is tried again by then, and takes effect first.
-- Seeks the keys, since until is not compared in the form of its index.
UPDATE timer_awaited AS t
   SET until = least(t.until, clock_timestamp() + interval '2 seconds')
  FROM json_to_recordset($1::json) AS c (tenant_id text, service_call_id text)
 WHERE t.tenant_id = c.tenant_id AND t.service_call_id = c.service_call_id AND t.until - now() > interval '0'
