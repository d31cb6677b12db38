-- Keep the timers of the keys in the JSON array $1 from firing for two minutes. Deletes older
-- rows.
  WITH old AS (
       DELETE FROM timer_awaited
        WHERE until < now())
INSERT INTO timer_awaited (tenant_id, service_call_id, until)
SELECT tenant_id, service_call_id, now() + interval '2 minutes'
  FROM json_to_recordset($1::json) AS c (tenant_id text, service_call_id text)
 ORDER BY tenant_id, service_call_id
    ON CONFLICT (tenant_id, service_call_id) DO UPDATE SET until = excluded.until
