-- Read the version of the server and the settings that decide whether it keeps commits.
SELECT current_setting('server_version_num')::bigint, current_setting('server_version'),
       current_setting('synchronous_commit'), current_setting('fsync')
