-- The numbers of the keys in the JSON array ?1, from 1 on, that have a service call, in a
-- database with the foreign key. Seeks the key of service_calls.
SELECT wanted.key + 1
  FROM jsonb_each(?1) AS wanted
 CROSS JOIN service_calls AS parent
 WHERE parent.tenant_id = wanted.value ->> 'tenant_id' AND parent.service_call_id = wanted.value ->> 'service_call_id'
