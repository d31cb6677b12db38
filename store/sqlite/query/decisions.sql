-- Read the last decisions about tenants, each with the pause that it left. There is a row for
-- each tenant that was ever paused or forgotten.
SELECT d.tenant_id, d.kind, d.decided_at, d.published, f.paused_at, f.paused_until, f.paused_by
  FROM timer_decisions AS d
  LEFT JOIN timer_firing AS f ON f.tenant_id = d.tenant_id AND d.kind = 'firing'
 ORDER BY d.tenant_id, d.kind
