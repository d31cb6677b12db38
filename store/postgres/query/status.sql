-- Lock timers, in the order of the keys in the JSON array $1, and return their status and row
-- id. Both stay the same until the transaction ends. A row that another transaction was
-- changing is read as that transaction left it. Seeks the primary key, once for each key.
SELECT number, place::text, state, command_at, command_id
  FROM ROWS FROM (json_to_recordset($1::json) AS (tenant_id text, service_call_id text))
       WITH ORDINALITY AS c (tenant_id, service_call_id, number)
 CROSS JOIN LATERAL (
       SELECT ctid AS place, state, command_at, command_id
         FROM timer_schedules AS t
        WHERE t.tenant_id = c.tenant_id AND t.service_call_id = c.service_call_id
          FOR UPDATE) AS timer
