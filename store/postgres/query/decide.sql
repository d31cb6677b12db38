-- Record a decision about tenant $1: of kind $2, at $3. If its mark is published ($4), one that
-- is as new stays. Otherwise it is made now, and its time is after that of the last one. Seeks
-- the primary key.
INSERT INTO timer_decisions (tenant_id, kind, decided_at, published)
VALUES ($1, $2, $3, $4)
    ON CONFLICT (tenant_id, kind) DO UPDATE
   SET published = excluded.published,
       decided_at = CASE WHEN excluded.published THEN excluded.decided_at
                         ELSE greatest(excluded.decided_at, timer_decisions.decided_at + interval '1 millisecond')
                    END
 WHERE NOT excluded.published OR excluded.decided_at > timer_decisions.decided_at
