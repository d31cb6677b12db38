-- Read the broker that the database is used with, '' if there was none yet.
SELECT coalesce(broker, ''), coalesce(broker_name, '')
  FROM timer_database
