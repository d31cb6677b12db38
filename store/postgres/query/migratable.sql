-- Read the schema in which tables are created, and whether the role may create some there.
SELECT coalesce(current_schema(), ''), coalesce(has_schema_privilege(current_schema(), 'CREATE'), false)
