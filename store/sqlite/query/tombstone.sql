-- Leave a tombstone for a key that has no timer. Seeks the primary key.
INSERT INTO timer_schedules
       (tenant_id, service_call_id, command_at, command_id, registered_at, canceled_at, state)
VALUES (?1, ?2, ?3, ?4, ?5, ?5, 'Canceled')
    ON CONFLICT (tenant_id, service_call_id) DO NOTHING
