package symptom

// Start are the messages of a service that does not start.
var Start = []Symptom{
	{Text: "`… mistakes in the configuration:`", Cause: "Wrong or unknown settings, in a file, a flag or a variable.", Do: "Correct each; check with `timer-service config`"},
	{Text: "`the database … is in use (…): stop the owner, or use another file`", Cause: "Another service, or a program that embeds one, runs on the SQLite file.", Do: "`kill PID`, with the pid in brackets; or give this service a file of its own: `--db-path other.db`"},
	{Text: "`create the database: …` with `there is no folder …`", Cause: "The folder above that of `TIMER_DB_PATH` is missing, too, or may not be written to. The service makes the last folder only.", Do: "`mkdir -p /var/lib/timer-service`"},
	{Text: "`the schema of the database has version …, this binary knows …: use a newer binary`", Cause: "The database was migrated by a newer version.", Do: "Install that version, or [restore](recovery.md#restore) an older backup"},
	{Text: "`the server has fsync = off: a loss of power may take the whole database`", Cause: "PostgreSQL does not sync its disk.", Do: "`ALTER SYSTEM SET fsync = on`, or `TIMER_DURABILITY=relaxed`. On Neon, whose safekeepers sync each commit: `ALTER DATABASE … SET synchronous_commit = on`"},
	{Text: "`the server is not PostgreSQL: it calls itself …`", Cause: "The server speaks the protocol of PostgreSQL, as CockroachDB and YugabyteDB do. Nothing was changed there.", Do: "A PostgreSQL, as in [where it runs](scaling.md#where-it-runs)"},
	{Text: "`belongs to … (id …), this is … (id …): stop that service, or start this one with --takeover`", Cause: "Another database takes these commands.", Do: "[One database for each consumer](operations.md#one-database-for-each-consumer)"},
	{Text: "`belong to another database that was at the same place: …`", Cause: "The database was lost or removed, and the service made a new one.", Do: "With NATS or Kafka start with an empty database: it [is recovered](recovery.md). With RabbitMQ [restore it](recovery.md#restore); if it is lost for good: `timer-service serve --takeover`, once"},
}

// NotReady are the messages of a service that waits for something at its start.
var NotReady = []Symptom{
	{Text: "`not connected, will retry`", Cause: "The broker does not answer. The attribute `error` says why.", Do: "Start the broker; check `TIMER_BROKER_URL` with `timer-service config`"},
	{Text: "`connected but not ready, will retry`", Cause: "The broker answers, but something is missing or not permitted. `error` says what.", Do: "See the next rows"},
	{Text: "`the server refuses …`", Cause: "A wrong user, password, token, key or certificate.", Do: "Correct it. Files are read again at the next attempt; other settings need a restart"},
	{Text: "`unfit stream`, or `consumer …: …; set it to: …`", Cause: "A NATS stream or consumer has a setting that could lose or delay messages. The error names it.", Do: "`nats stream edit svc` or `nats consumer edit svc`, as the error says; [refused settings](brokers/nats.md#what-is-at-the-server)"},
	{Text: "`can't tell which database owns the commands, and whether it is complete, will retry`", Cause: "The broker's user lacks a permission.", Do: "*Permissions* of [NATS](brokers/nats.md#permissions), [Kafka](brokers/kafka.md#permissions), [RabbitMQ](brokers/rabbitmq.md#permissions)"},
	{Text: "`waiting for the database`", Cause: "PostgreSQL does not answer. After five minutes the service ends with exit code 1.", Do: "Start it; check `TIMER_DB_URL`"},
	{Text: "`no shard of the outbox to own, will retry`", Cause: "PostgreSQL refuses the lock or the connection that it needs; `error` says why. Events wait.", Do: "Often more connections: `max_connections`, or PgBouncer"},
}

// Running are the messages of a service that runs.
var Running = []Symptom{
	{Text: "`the store failed, commands wait until it works again`", Cause: "The database is down, locked or full. No command is acknowledged, none is lost.", Do: "Free the disk with `df -h`, start the database. It goes on by itself: `the store works again`"},
	{Text: "`the broker is unavailable, events wait in the outbox`", Cause: "The broker is down. Nothing is lost.", Do: "Start the broker"},
	{Text: "`events can't be published, will retry each`", Cause: "One topic, partition or queue fails; `destination` names it. All others go on.", Do: "Repair it"},
	{Text: "`events were parked, see the table timer_outbox_parked`", Cause: "The broker refuses events for good (too large, or a topic that is not allowed), or their handler does.", Do: "[Parked events](operations.md#parked-events)"},
	{Text: "`events could not be handled, will retry each`", Cause: "The handler of a program that embeds the service (`OnDue`) returns errors or panics; `prefix` names it, and the line names an event and its error. The stack of a panic is in the log once.", Do: "Repair the handler, or what it needs"},
	{Text: "`firing is paused: events that fired before wait in the outbox`", Cause: "The broker, or the handler of `OnDue`, takes events more slowly than timers become due.", Do: "Wait for `firing goes on`. If it lasts, that is too slow or down"},
	{Text: "`clock jumped forward, firing is paused`", Cause: "The clock of the machine jumped by more than a minute. Firing waits until broker or database confirm it, for at most 5 s.", Do: "`timedatectl`, `chronyc tracking`"},
	{Text: "`clock disagrees with the reference, firing is paused`", Cause: "The clock is wrong: broker or database have another time. Nothing fires.", Do: "Set the clock, run NTP"},
	{Text: "`clock is behind the reference, timers fire late`", Cause: "The clock is wrong, as that of a virtual machine that was paused: broker or database are ahead by more than a minute. Commands that seem to come from the future are not refused meanwhile.", Do: "Set the clock, run NTP"},
	{Text: "`timers fire before all commands that wait at the broker were read`", Cause: "The backlog at the broker was larger than `TIMER_CATCH_UP_TIMEOUT` allows. Timers whose cancellation waits there may fire.", Do: "A larger `TIMER_CATCH_UP_TIMEOUT`, if cancellations matter more than punctuality"},
	{Text: "`made a new database`", Cause: "There was no database at `TIMER_DB_PATH`, or it is the first start.", Do: "If it is not the first start: stop, and correct the path, or see [what to do](recovery.md#what-to-do)"},
	{Text: "`the database is older than it was`", Cause: "PostgreSQL was restored under the running service, or failed over to a server that lagged. It ended with exit code 1.", Do: "Start again: lost messages are read from the broker"},
	{Text: "`the database file … was replaced`", Cause: "Someone replaced or removed the file under the running service. It ended with exit code 1.", Do: "[Restore it](recovery.md#restore), start again"},
	{Text: "`the file is damaged: restore a backup, or move the file and its -wal and -shm away, and start`", Cause: "The SQLite file is damaged, the service refuses it.", Do: "[A damaged database](recovery.md#a-damaged-database)"},
	{Text: "`lost the lease of an outbox shard, acquiring another`", Cause: "The instance was frozen or cut off from PostgreSQL.", Do: "Nothing; if it repeats, look at the network"},
	{Text: "`timers that other instances left can't be looked for, will retry`, `counts of timers can't be summed up, or old positions can't be deleted, will retry`", Cause: "If `error` is a timeout, a transaction has held a snapshot on PostgreSQL for hours, and vacuum removes nothing. Timers fire on.", Do: "`SELECT pid, xact_start, query FROM pg_stat_activity ORDER BY age(backend_xmin) DESC NULLS LAST`; end that session"},
	{Text: "`log lines are missing here: they were not read in time`", Cause: "What reads stderr stood still, or its disk was full; `lines` says how many are gone. The service went on.", Do: "Look at the reader: the pipe, the log driver, its disk"},
	{Text: "`a part of the service ended by itself; see the log`", Cause: "A fatal error, in the line before. Exit code 1.", Do: "Act on that line, start again"},
}

// Messages are about single commands and their tenants.
var Messages = []Symptom{
	{Text: "`messages refused`", Cause: "Invalid commands became dead letters. `tenant_id`, `reason` and the id of the first are in the line.", Do: "`timer-service dlq list --tenant acme`, [reasons](messages.md#dead-letters)"},
	{Text: "`the clock of a producer is ahead: its commands supersede later ones of others`", Cause: "A producer's `timestampMs` is more than a minute in the future.", Do: "Set the producer's clock"},
	{Text: "`a tenant exceeds its quota`", Cause: "Commands are delayed or dead-lettered, as `policy` says.", Do: "Raise the [quota](quotas.md), or slow the producer"},
}
