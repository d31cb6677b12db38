-- Lock timers, in the order of the keys given, and return their status and row
-- id: both stay the same until the transaction ends. A row that another
-- transaction was changing is read as that one left it.
-- Seeks the primary key, once for each key.
SELECT number, place, state, command_at, command_id
  FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS c (tenant_id, service_call_id, number)
 CROSS JOIN LATERAL (
       SELECT ctid AS place, state, command_at, command_id
         FROM timer_schedules AS t
        WHERE t.tenant_id = c.tenant_id AND t.service_call_id = c.service_call_id
          FOR UPDATE) AS timer
