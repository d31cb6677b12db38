-- Let the timers of the keys in the JSON array $1 fire again.
DELETE FROM timer_awaited AS t
 USING json_to_recordset($1::json) AS c (tenant_id text, service_call_id text)
 WHERE t.tenant_id = c.tenant_id AND t.service_call_id = c.service_call_id
