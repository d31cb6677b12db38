package symptom

// Start are the messages of a service that does not start.
var Start = []Symptom{
	{Text: "`… mistakes in the configuration:`", Cause: "Wrong or unknown settings, in a file, a flag or a variable.", Do: "Correct each; check with `timer-service config`"},
	{Text: "`the database … belongs to another process (…): stop that one, or set another db_path`", Cause: "Another service has the SQLite file open.", Do: "`kill PID`, with the pid in brackets; or give this service a file of its own: `--db-path other.db`"},
	{Text: "`another process has the data of the embedded server in …`", Cause: "Two services share one embedded broker.", Do: "Give several instances a broker of their own: `TIMER_BROKER_URL=nats://nats:4222`"},
	{Text: "`… is taken by another server`", Cause: "The port that was set for the embedded broker is in use.", Do: "Another port, `TIMER_NATS_PORT=4223`; or 0 for a free one"},
	{Text: "`listen for HTTP: …; set http_addr to a free address, or to nothing for no HTTP`", Cause: "The port that was set for HTTP is in use.", Do: "Another port, `TIMER_HTTP_ADDR=127.0.0.1:8081`; or `TIMER_HTTP_ADDR=` for none"},
	{Text: "`create the database: …` with `there is no folder …`", Cause: "The folder above that of `TIMER_DB_PATH` is missing, too, or may not be written to. The service makes the last folder only.", Do: "`mkdir -p /var/lib/timer-service`"},
	{Text: "`all users may replace files in the folder … (mode …): set db_path to a file in a new folder below, such as …, which the service makes for itself; or have the folder belong to user …, with chmod 700`", Cause: "Any user could replace the database. A bind mount and an `emptyDir` are often such folders.", Do: "As it says: `TIMER_DB_PATH=/data/timer-service/timers.db`"},
	{Text: "`the folder must belong to user …, whom the service runs as`", Cause: "The service can't write beside its database.", Do: "`chown` the folder to that user"},
	{Text: "`… has other data than timers, and others may read it (mode …): set another db_path, or run chmod 600 on it`", Cause: "`TIMER_DB_PATH` names a file of another program, perhaps by mistake.", Do: "Correct it. The service changes nothing of such a file"},
	{Text: "`… has … names (hard links; …), each with a lock and a log of its own: remove the others`", Cause: "The database file has a hard link.", Do: "`find DIR -samefile event_service.db`, then remove the others"},
	{Text: "`… is a file that is mounted by itself: SQLite's log would stay outside of it, and be lost with the container; mount the folder, such as -v data:…`", Cause: "A container has the file of the database as a mount of its own, and not its folder.", Do: "Mount the folder."},
	{Text: "`the schema of the database has version …, this binary knows …: use a newer binary`", Cause: "The database was migrated by a newer version.", Do: "Install that version, or [restore](operations.md#backup) an older backup"},
	{Text: "`the schema of the database has version …, this binary needs …: run timer-service migrate`", Cause: "The database role does not own the tables.", Do: "`timer-service migrate --db-url URL-OF-THE-OWNER`"},
	{Text: "`the role may not make tables in the schema …: its owner makes them: run timer-service migrate with the URL of that role`", Cause: "PostgreSQL has no tables yet, and the role of `TIMER_DB_URL` is not the owner's.", Do: "`timer-service migrate --db-url URL-OF-THE-OWNER`"},
	{Text: "`the server has fsync = off: a loss of power may take the whole database`", Cause: "PostgreSQL does not sync its disk.", Do: "`ALTER SYSTEM SET fsync = on`, or `TIMER_DURABILITY=relaxed`"},
	{Text: "`the server is PostgreSQL …: it must be PostgreSQL … or newer`", Cause: "The server is too old.", Do: "Upgrade it"},
	{Text: "`belongs to … (id …), this is … (id …): stop that service, or start this one with --takeover`", Cause: "Another database takes these commands.", Do: "[One database for each consumer](operations.md#one-database-for-each-consumer)"},
	{Text: "`belong to another database that was at the same place: …`", Cause: "The database was lost or removed, and the service made a new one.", Do: "With NATS or Kafka start with an empty database: it [is recovered](recovery.md). With RabbitMQ [restore it](operations.md#backup); if it is lost for good: `timer-service serve --takeover`, once"},
	{Text: "`other instances of … use …, this one uses …: give all the same broker`", Cause: "Two instances on one PostgreSQL have different brokers.", Do: "The same `TIMER_BROKER_URL` for all"},
}

// NotReady are the messages of a service that waits for something at its start.
var NotReady = []Symptom{
	{Text: "`not connected, will retry`", Cause: "The broker does not answer. The attribute `error` says why.", Do: "Start the broker; check `TIMER_BROKER_URL` with `timer-service config`"},
	{Text: "`connected but not ready, will retry`", Cause: "The broker answers, but something is missing or not permitted. `error` says what.", Do: "See the next rows"},
	{Text: "`the server refuses …`", Cause: "A wrong user, password, token, key or certificate.", Do: "Correct it. Files are read again at the next attempt; other settings need a restart"},
	{Text: "`it is missing; an administrator makes it with: timer-service provision`", Cause: "With `TIMER_PROVISION=verify` the service creates no stream or consumer.", Do: "`timer-service provision` with an administrator's credentials"},
	{Text: "`… does not exist; make it with timer-service provision`", Cause: "The same, on Kafka.", Do: "the same"},
	{Text: "`is missing: make it, or set provision to create: …`", Cause: "The same, on RabbitMQ.", Do: "the same"},
	{Text: "`unfit stream`", Cause: "A NATS stream or consumer has a setting that could lose messages. The error names it.", Do: "`nats stream edit svc`, as the error says; [what is refused](brokers/nats.md#what-is-at-the-server)"},
	{Text: "`the server has no space for a stream of … bytes: set nats_max_bytes to less, or give it more (max_file_store)`", Cause: "The NATS server reserves the size limit of each stream, and has less than 8 GiB left, the default.", Do: "`TIMER_NATS_MAX_BYTES=1GiB`"},
	{Text: "`can't tell which database owns the commands, and whether it is complete, will retry`", Cause: "The broker's user lacks a permission.", Do: "*Permissions* of [NATS](brokers/nats.md#permissions), [Kafka](brokers/kafka.md#permissions), [RabbitMQ](brokers/rabbitmq.md#permissions)"},
	{Text: "`waiting for the database`", Cause: "PostgreSQL does not answer. After five minutes the service ends with exit code 1.", Do: "Start it; check `TIMER_DB_URL`"},
	{Text: "`no shard of the outbox to own, will retry`", Cause: "PostgreSQL refuses the lock or the connection that it needs; `error` says why. Events wait.", Do: "Often more connections: `max_connections`, or PgBouncer"},
}

// Running are the messages of a service that runs.
var Running = []Symptom{
	{Text: "`the store failed, commands wait until it works again`", Cause: "The database is down, locked or full. No command is acknowledged, none is lost.", Do: "Free the disk with `df -h`, start the database. It goes on by itself: `the store works again`"},
	{Text: "`not ready`", Cause: "A part is red; the line has its name, the reason, and advice.", Do: "`timer-service health`"},
	{Text: "`the default address for HTTP is in use, another port was taken; set http_addr to choose one`", Cause: "Another service has port 8080.", Do: "`TIMER_HTTP_ADDR=127.0.0.1:8081`"},
	{Text: "`poll failed, will retry`", Cause: "The same; timers fire late.", Do: "the same"},
	{Text: "`the broker is unavailable, events wait in the outbox`", Cause: "The broker is down. Nothing is lost.", Do: "Start the broker"},
	{Text: "`events can't be published, will retry each`", Cause: "One topic, partition or queue fails; `destination` names it. All others go on.", Do: "Repair it"},
	{Text: "`event parked: the broker refuses it; see the table timer_outbox_parked`", Cause: "The broker refuses an event for good: too large, or a topic that is not allowed.", Do: "[Parked events](operations.md#parked-events)"},
	{Text: "`events could not be handled, will retry each`", Cause: "The handler of a program that embeds the service (`OnDue`) returns errors; `error` is the latest, and the line names the event.", Do: "Repair the handler, or what it needs"},
	{Text: "`event parked: its handler failed for the last time; see the table timer_outbox_parked`", Cause: "The same, as often as it may, or with an error that no retry can help.", Do: "[Parked events](operations.md#parked-events)"},
	{Text: "`the handler of an event panicked`", Cause: "The same, with the stack. The event is tried again.", Do: "Repair the handler"},
	{Text: "`firing is paused: events that fired before wait in the outbox`", Cause: "The broker, or the handler of `OnDue`, takes events more slowly than timers become due.", Do: "Wait for `firing goes on`. If it lasts, that is too slow or down"},
	{Text: "`clock jumped forward, firing is paused`", Cause: "The clock of the machine jumped by more than a minute. Firing waits until broker or database confirm it, 5 s at most.", Do: "`timedatectl`, `chronyc tracking`"},
	{Text: "`clock disagrees with the reference, firing is paused`", Cause: "The clock is wrong: broker or database have another time. Nothing fires.", Do: "Set the clock, run NTP"},
	{Text: "`timers fire before all commands that wait at the broker were read`", Cause: "The backlog at the broker was larger than `TIMER_CATCH_UP_TIMEOUT` allows. Timers whose cancellation waits there may fire.", Do: "A larger `TIMER_CATCH_UP_TIMEOUT`, if cancellations matter more than punctuality"},
	{Text: "`made a new database`", Cause: "There was no database at `TIMER_DB_PATH`, or it is the first start.", Do: "If it is not the first start: stop, correct the path or [restore](operations.md#backup)"},
	{Text: "`the database is older than it was`", Cause: "PostgreSQL was restored under the running service, or failed over to a server that lagged. It ended with exit code 1.", Do: "Start again: what was lost is read from the broker"},
	{Text: "`the database file … was replaced`", Cause: "Someone replaced or removed the file under the running service. It ended with exit code 1.", Do: "[Restore it](operations.md#backup), start again"},
	{Text: "`the file is damaged: restore a backup, or delete the file, and start`", Cause: "The SQLite file is damaged, the service refuses it.", Do: "[A damaged database](operations.md#a-damaged-database)"},
	{Text: "`the database is damaged: restore a backup, or use an empty database, and start`", Cause: "PostgreSQL found corrupt data or a corrupt index.", Do: "[A damaged database](operations.md#a-damaged-database)"},
	{Text: "`others could read or write the database; their permissions were removed`", Cause: "The files had a mode wider than 0600.", Do: "Nothing. Other users may have read the timers before"},
	{Text: "`the embedded NATS server could not write, restarting it`", Cause: "Its disk was full.", Do: "Free the disk"},
	{Text: "`lost the lease of a shard of the outbox, takes another`", Cause: "The instance was frozen or cut off from PostgreSQL.", Do: "Nothing; if it repeats, look at the network"},
	{Text: "`timers that other instances left can't be looked for, will retry`, `counts of timers can't be summed up, or old positions can't be deleted, will retry`", Cause: "If `error` is a timeout, a transaction has held a snapshot on PostgreSQL for hours, and vacuum removes nothing. Timers fire on.", Do: "`SELECT pid, xact_start, query FROM pg_stat_activity ORDER BY age(backend_xmin) DESC NULLS LAST`; end that session"},
	{Text: "`the quotas file is wrong, the old quotas stay in force`", Cause: "The file was changed, and has a mistake.", Do: "`timer-service config --quotas-file FILE`"},
	{Text: "`retention failed, will retry`", Cause: "Finished timers can't be deleted now.", Do: "Nothing, unless it lasts: the database grows"},
	{Text: "`stopped with events in the outbox; the next start forwards them`", Cause: "The broker did not take them before `TIMER_DRAIN_TIMEOUT`.", Do: "Nothing"},
	{Text: "`log lines are missing here: they were not read in time`", Cause: "What reads stderr stood still, or its disk was full; `lines` says how many are gone. The service went on.", Do: "Look at the reader: the pipe, the log driver, its disk"},
	{Text: "`a part of the service ended by itself; see the log`", Cause: "A fatal error, in the line before. Exit code 1.", Do: "Act on that line, start again"},
}

// Messages are about single commands and their tenants.
var Messages = []Symptom{
	{Text: "`messages refused`", Cause: "Invalid commands became dead letters. `tenant_id`, `reason` and the id of the first are in the line.", Do: "`timer-service dlq list --tenant acme`, [reasons](messages.md#dead-letters)"},
	{Text: "`the clock of a producer is ahead: its commands supersede later ones of others`", Cause: "A producer's `timestampMs` is more than a minute in the future.", Do: "Set the producer's clock"},
	{Text: "`a tenant exceeds its quota`", Cause: "Commands are delayed or dead-lettered, as `policy` says.", Do: "Raise the [quota](operations.md#quotas), or slow the producer"},
	{Text: "`messages of an unknown type are ignored`", Cause: "With `TIMER_UNKNOWN_TYPES=ignore`: a type that is not a command.", Do: "Nothing, unless it is a misspelled command"},
}

// Commands are the messages of the other verbs of the command line.
var Commands = []Symptom{
	{Text: "`no service answers` … `start one, or name one with --server`", Cause: "No service runs on this machine for that database, or another one is meant.", Do: "`timer-service serve`; the `--db-path` of the service; `--server URL`"},
	{Text: "`no embedded server has run here`", Cause: "There is no embedded broker beside that database.", Do: "`--db-path` of the service, or `--broker-url`"},
	{Text: "`no database at …: has the service run here?`", Cause: "The file is not there.", Do: "`--db-path` of the service"},
	{Text: "`no answer within … of the due time; the service may be down`", Cause: "`schedule --wait` asked in vain whether the timer has fired.", Do: "`timer-service get acme order-1`"},
	{Text: "`already …: use a new call id`", Cause: "The timer fired or expired before, which is final.", Do: "Another service call id"},
	{Text: "`a newer command set it to …`", Cause: "A command with a later `timestampMs` holds.", Do: "Check the clocks of producers"},
	{Text: "`this broker can't list its topics: name a tenant`", Cause: "`dlq` on RabbitMQ.", Do: "`--tenant acme`"},
	{Text: "`it was replayed … times already`", Cause: "The command was refused three times.", Do: "Repair the cause; have the producer send it again; `timer-service dlq discard ID`"},
	{Text: "`… holds timers or events already: import into a new database`", Cause: "`import` needs an empty database.", Do: "`--db-path new.db`"},
	{Text: "`events wait for the broker (…) or are parked (…), and an export has none of them`", Cause: "`export` has timers alone.", Do: "Start the service until `timer-service stats` prints neither; `timer-service parked retry --all` or `discard`; [more](operations.md#moving-to-another-database)"},
	{Text: "`instances run on the database (…): stop all of them first`", Cause: "`export` and `import` need the service stopped.", Do: "Stop all instances"},
}
