-- Read the numbers of the keys in the JSON array $1 that have a service call, in a database
-- with the foreign key. The service calls are locked, so that they stay until the transaction
-- ends. Seeks the key of service_calls.
SELECT number
  FROM ROWS FROM (json_to_recordset($1::json) AS (tenant_id text, service_call_id text))
       WITH ORDINALITY AS c (tenant_id, service_call_id, number)
 CROSS JOIN LATERAL (
       SELECT 1
         FROM service_calls AS p
        WHERE p.tenant_id = c.tenant_id AND p.service_call_id = c.service_call_id
          FOR KEY SHARE) AS parent
