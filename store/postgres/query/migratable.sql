-- The schema in which tables are made, and whether the role may make some there.
SELECT coalesce(current_schema(), ''), coalesce(has_schema_privilege(current_schema(), 'CREATE'), false)
