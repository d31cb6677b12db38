-- What has to be known of a server.
SELECT current_setting('server_version_num')::bigint, current_setting('server_version'),
       current_setting('synchronous_commit'), current_setting('fsync')
