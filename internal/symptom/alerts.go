package symptom

// Alerts are those of docs/alerts/rules.yml, in their order.
var Alerts = []Symptom{
	{
		ID: "TimerServiceDown", Red: true, Cause: "Prometheus has reached no instance for a minute. Commands wait at the broker. Nothing is lost.",
		Do: "1. Does a process run? `systemctl status timer-service`, or your orchestrator. The last lines of the log say why it ended: [It does not start](#it-does-not-start). Exit code 2 is a mistake in the configuration.\n" +
			"2. It runs, and `timer-service health` answers: Prometheus has the wrong address, job name (`timer-service`) or token ([scrape configuration](monitoring.md#prometheus)).\n" +
			"3. After the start it reads the commands that waited, then fires overdue timers.",
	},
	{
		ID: "TimerInstanceDown", Cause: "One instance has not answered for two minutes. Others on the same PostgreSQL do its work; with SQLite [TimerServiceDown](#timerservicedown) fires, too.",
		Do: "1. As above, for this instance.\n" +
			"2. You removed it: remove it from the scrape configuration.",
	},
	{
		ID: "TimerStoreDown", Red: true, Cause: "The database does not answer. No command is acknowledged, no timer fires. Nothing is lost.",
		Do: "1. `timer-service health` prints the error.\n" +
			"2. SQLite: is the disk full (`df -h`), read-only, or does another program hold a lock on the file? Free it.\n" +
			"3. PostgreSQL: does it answer at all, and has it connections left (`max_connections`)? Start or repair it.\n" +
			"4. It goes on by itself: the log says \"the store works again\". [The file was replaced or is corrupt](operations.md#backup): restore it.",
	},
	{
		ID: "TimerBrokerDown", Red: true, Cause: "The broker does not answer. No command arrives, events wait in the outbox. Nothing is lost.",
		Do: "1. `timer-service health` prints the error; [It is not ready](#it-is-not-ready) explains it.\n" +
			"2. Start the broker, or repair the network or the credentials. A full disk stops an embedded NATS server: `df -h`.\n" +
			"3. It goes on by itself, with the commands that waited first. Timers that became due meanwhile fire late.",
	},
	{
		ID: "TimerNotReady", Red: true, Cause: "A part has been red for five minutes, while database and broker answer. The label `part` names it, `timer-service health` says why.",
		Do: "1. [What health and doctor say](#what-health-and-doctor-say) has what to do for each part and reason.\n" +
			"2. `owner`: [one database for each consumer](operations.md#one-database-for-each-consumer): another service takes these commands, or the broker's user lacks a permission.\n" +
			"3. `intake`: [TimerStoreDown](#timerstoredown). `poller`: [TimerPollerStuck](#timerpollerstuck). `clock`: [TimerClockJumped](#timerclockjumped). `forwarder`: [TimerOutboxOld](#timeroutboxold).",
	},
	{
		ID: "TimerPollerStuck", Red: true, Cause: "A poll of the database takes longer than 30 s, or should have begun 30 s ago. Timers fire late.",
		Do: "1. The database is slow or locked. PostgreSQL: `SELECT pid, wait_event_type, state, query FROM pg_stat_activity`. SQLite: does another program have the file open (`fuser event_service.db`)?\n" +
			"2. The machine has no CPU time or memory left, or the process was stopped: `top`, and `State` in `/proc/PID/status`.\n" +
			"3. Neither: restart the service, and report this with its log.",
	},
	{
		ID: "TimerClockJumped", Cause: "The clock jumped forward by more than a minute. Firing waits until broker or database confirm the time, 5 s at most if the clock is right.",
		Do: "1. Compare the clock: `timedatectl`, `chronyc tracking`. Set it, and run NTP.\n" +
			"2. A machine that was suspended, or a virtual machine that was moved, jumps once: nothing to do.",
	},
	{
		ID: "TimerFiringPaused", Cause: "An operator paused firing a quarter of an hour ago or longer. Commands are taken, no timer fires on any instance. A restart does not end it.",
		Do: "1. `/readyz?verbose` says since when, and who did it, at the check of the poller.\n" +
			"2. Is that person at work? Then wait: timers that become due meanwhile are not lost, they fire late. Expect TimerOverdue and the alerts of lateness as well.\n" +
			"3. If the reason is gone, resume firing. What is overdue goes out at full speed, tenants in turn.",
	},
	{
		ID: "TimerDatabaseErrors", Cause: "Polls or commits have failed again and again for five minutes. They are retried; timers are late meanwhile.",
		Do: "1. Search the log for \"poll failed, will retry\" and \"the store failed\": the attribute `error` says why.\n" +
			"2. Go on as for [TimerStoreDown](#timerstoredown).",
	},
	{
		ID: "TimerCommitsSlow", Cause: "One commit of commands in a hundred takes longer than half a second. Commands wait at the broker; timers that are due soon may be late.",
		Do: "1. Is the disk of the database slow or shared? `iostat -x 1`: look at `w_await` and `%util`. PostgreSQL also waits for synchronous replicas.\n" +
			"2. Is it more load than the machine can take? Compare with [performance.md](performance.md) and [scaling.md](scaling.md).",
	},
	{
		ID: "TimerBackupOld", Cause: "The newest good backup is older than twice `backup_every`. Timers fire as ever, and the older backups are still there.",
		Do: "1. `timer-service health` says why at the part `backup`; the log says \"the backup failed\" for each try. A try that failed is repeated after a tenth of `backup_every`.\n" +
			"2. Is the folder there, and is it full or read-only? `df -h`, and `timer-service config` for `backup_dir`. Make room: remove old copies, or set a lower `backup_keep`.\n" +
			"3. A copy that failed its check is kept as `….db.damaged`. Then the disk of the copies or the database itself is damaged: make a copy elsewhere with `timer-service backup FILE`. If that fails its\n" +
			"   check too, [restore](operations.md#backup) the newest good copy.",
	},
	{
		ID: "TimerUnprotected", Cause: "Timers have waited for longer than the broker keeps commands, and the service makes no backups: if the database were lost, they would be, too.",
		Do: "1. `timer-service stats` says how many there are, and how old the oldest is. [How long is a timer protected](operations.md#how-long-is-a-timer-protected) explains it.\n" +
			"2. SQLite: set `backup_every` and `backup_dir`. PostgreSQL: see that its backups are made and can be restored. Then silence this alert: the service does not know of them.\n" +
			"3. Or have the broker keep messages for longer than the farthest due time is ahead (`nats_max_age`, `kafka_max_age`; `retention` must be longer).",
	},
	{
		ID: "TimerBrokerFull", Cause: "More than 80 % of what the broker takes at most is used. A full stream takes no commands, and no event leaves: then the check of the broker is red. On Kafka it is the fullest disk of the servers.",
		Do: "1. NATS: `nats stream info svc` shows messages and `max_bytes`. A stream that the service made gets another limit by `nats_max_bytes` and a start; any other by `nats stream edit svc --max-bytes=16GiB`.\n" +
			"2. Or have it forget sooner: `nats stream edit svc --max-age=2d`. What the broker has forgotten it can't give back to a lost database ([how long is a timer protected](operations.md#how-long-is-a-timer-protected)).\n" +
			"3. What is consumed is removed from a stream that the service made. The log says what stands in the way: `no more can be removed from it`, with a consumer that does not ack, a command that waits, or a subject that no JetStream consumer reads ([what is at the server](brokers/nats.md#what-is-at-the-server)).\n" +
			"4. Kafka: `kafka-log-dirs.sh --describe` shows which topic takes the disk. Enlarge it, or set a shorter `retention.ms` of that topic.",
	},
	{
		ID: "TimerDiskFull", Cause: "More than 90 % of the file system of the SQLite file is used. A full one takes no commands, and nothing fires: then the check of the store is red, until there is space again.",
		Do: "1. `df -h` for the folder of `db_path`: what else fills it? The embedded NATS server keeps its stream there too, up to `nats_max_bytes`, and `backup_dir` may be there.\n" +
			"2. Make the volume larger, or remove what is not the service's. Files of the service, such as the one that ends in `-wal`, must stay.\n" +
			"3. Timers that have fired stay for `retention`: a shorter one leaves room within the file after some hours; the file does not shrink.",
	},
	{
		ID: "TimerOverdue", Red: true, Cause: "A timer that is due has not fired for more than 5 s, for a minute.",
		Do: "1. `timer-service list --due-within 0` shows the timers, `timer-service stats --tenants` how many of each tenant.\n" +
			"2. What waits for the `fire_rate` of its tenant ([quotas](operations.md#quotas)) is not counted here, but as held (`timer_timers_held`).\n" +
			"3. The log says \"firing is paused\": people did it ([TimerFiringPaused](#timerfiringpaused)), or it is broker ([TimerOutboxOld](#timeroutboxold)) or clock ([TimerClockJumped](#timerclockjumped)).\n" +
			"4. After an outage the number falls by itself; `timer-service stats` twice shows how fast.",
	},
	{
		ID: "TimerLatenessBurnsFast", Red: true, Cause: "The objective: 99 % of the events reach the broker at most 1 s after the due time. In the last hour and in the last five minutes more than 14.4 % were later. At this rate a month of the 1 % that is allowed is used up in two days. An hour with fewer than 20 events does not count.",
		Do: "1. Compare the panels \"Lateness of events\" and \"Lateness of firing\" of the [dashboard](grafana.json). Both late: the database or the machine is slow. Events only: the broker.\n" +
			"2. Database: [TimerCommitsSlow](#timercommitsslow). Broker: [TimerOutboxOld](#timeroutboxold). Machine: CPU of the process and of its neighbors.\n" +
			"3. A producer schedules timers that are due already? They count as late: `timer-service tail commands` shows the due times.\n" +
			"4. The objective is wrong for you: change `le=~\"1|1.0\"` (`1.0` in OpenMetrics and Prometheus 3, `1` elsewhere) to another [bucket](metrics.md) in the rules that record `job:timer_events_late`.",
	},
	{
		ID: "TimerLatenessBurnsSlowly", Cause: "The same with more than 6 % late in the last six hours and in the last thirty minutes: a month is used up in five days. Do the same.",
	},
	{
		ID: "TimerOutboxOld", Red: true, Cause: "An event of a timer that fired has waited for the broker for more than 5 s, for a minute.",
		Do: "1. `timer-service health`: is the broker red? Then [TimerBrokerDown](#timerbrokerdown).\n" +
			"2. One topic, queue or partition fails: the log says \"events can't be published, will retry each\", with `destination` and `error`. All others go out. [Which ones fail](operations.md#parked-events).\n" +
			"3. The stream is full, or the broker too slow for the load: raise its limit, or give it more.",
	},
	{
		ID: "TimerEventsParked", Red: true, Cause: "The broker refused an event for good, five times: too large, or a topic that is not allowed. Its consumer does not get it until you act. The alert ends when none is parked.",
		Do: "1. `timer-service stats` says how many and since when; the log line \"event parked\" and the column `last_error` of the table `timer_outbox_parked` say why.\n" +
			"2. Remove the cause: permissions, the limit of a message's size, the missing topic.\n" +
			"3. [Send them again](operations.md#parked-events).",
	},
	{
		ID: "TimerInvalidCommands", Cause: "More than 1 % of the commands of ten minutes were refused, for five minutes. Often a producer was deployed with a mistake.",
		Do: "1. `timer-service dlq list --limit 20`: tenants and reasons. `timer-service dlq show ID`: the body. [What each reason means](messages.md#dead-letters).\n" +
			"2. Tell the producer. What it sent wrong it must send again, correctly.",
	},
	{
		ID: "TimerDeadLetters", Cause: "Commands became dead letters in the last 15 minutes. Their timers do not exist, or were not changed.",
		Do: "1. `timer-service dlq list --since 1h`: the tenants and reasons.\n" +
			"2. Remove the cause, then `timer-service dlq replay`; or `timer-service dlq discard`: [dead letters](operations.md#dead-letters).",
	},
	{
		ID: "TimerOverQuota", Cause: "A tenant has exceeded its quota for 15 minutes. Its commands wait at the broker and are delivered again; no other tenant is delayed.",
		Do: "1. The log line \"a tenant exceeds its quota\" names tenant and limit.\n" +
			"2. Raise the [quota](operations.md#quotas), or have the tenant send less. On NATS a command waits as long as the stream keeps messages (`nats_max_age`).",
	},
}
