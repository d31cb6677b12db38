package symptom

// Alerts are those of docs/alerts/rules.yml, in their order.
var Alerts = []Symptom{
	{
		ID: "TimerServiceDown", Red: true, Cause: "Prometheus has reached no instance for a minute. Commands wait at the broker. Nothing is lost.",
		Do: "1. Does a process run (`systemctl status timer-service`)? The last lines of its log say why it ended. Exit code 2 is a mistake in the configuration.\n" +
			"2. If `timer-service health` answers, Prometheus has the wrong address, job name or token: [scrape configuration](monitoring.md#prometheus).",
	},
	{
		ID: "TimerInstanceDown", Cause: "One instance has not answered for two minutes. On PostgreSQL the others do its work.",
		Do: "Do as above for this instance. If you removed it, remove it from the scrape configuration.",
	},
	{
		ID: "TimerStoreDown", Red: true, Cause: "The database does not answer. No command is acknowledged, no timer fires. Nothing is lost.",
		Do: "1. `timer-service health` prints the error. SQLite: is the disk full (`df -h`) or read-only, or does another program hold a lock?\n" +
			"   PostgreSQL: does it answer, and has it connections left (`max_connections`)?\n" +
			"2. The service goes on by itself: \"the store works again\". If the log says that the file was replaced or is damaged, the service has ended: see [what to do](recovery.md#what-to-do).",
	},
	{
		ID: "TimerBrokerDown", Red: true, Cause: "The broker does not answer. No command arrives, events wait in the outbox. Nothing is lost.",
		Do: "1. `timer-service health` prints the error. Start the broker, or repair the network or the credentials. A full disk stops an embedded NATS server.\n" +
			"2. The service goes on by itself. Timers that became due meanwhile fire late.",
	},
	{
		ID: "TimerNotReady", Red: true, Cause: "A part has been red for five minutes, while database and broker answer. The label `part` names it.",
		Do: "1. `timer-service health` says why, and what to do.\n" +
			"2. `owner`: another service takes these commands, or a permission is missing: [one database for each consumer](operations.md#one-database-for-each-consumer).",
	},
	{
		ID: "TimerPollerStuck", Red: true, Cause: "A poll of the database takes longer than 30 s, or should have begun 30 s ago. Timers fire late.",
		Do: "1. Is the database slow or locked? PostgreSQL: `SELECT pid, wait_event_type, state, query FROM pg_stat_activity`. SQLite: `fuser event_service.db`.\n" +
			"2. Has the machine CPU time and memory left? Was the process stopped? Otherwise restart the service, and report this with its log.",
	},
	{
		ID: "TimerClockJumped", Cause: "The clock jumped forward by more than a minute. Firing waits until broker or database confirm the time, at most 5 s if the clock is right.",
		Do: "Compare the clock (`timedatectl`, `chronyc tracking`), set it, and run NTP. A machine that was suspended jumps once: nothing to do.",
	},
	{
		ID: "TimerFiringPaused", Cause: "An operator paused firing a quarter of an hour ago or longer. Commands are taken, no timer fires. A restart does not end it.",
		Do: "1. `/readyz?verbose` says since when, and who did it. If that person works on it, wait: timers fire late, and alerts of lateness are expected.\n" +
			"2. Otherwise `timer-service resume`. Overdue timers fire at full speed, tenants in turn.",
	},
	{
		ID: "TimerDatabaseErrors", Cause: "Polls or commits have failed again and again for five minutes. They are retried; timers are late meanwhile.",
		Do: "Search the log for \"poll failed, will retry\" and \"the store failed\": `error` says why. Go on as for [TimerStoreDown](#timerstoredown).",
	},
	{
		ID: "TimerCommitsSlow", Cause: "One commit of commands in a hundred takes longer than half a second. Timers that are due soon may be late.",
		Do: "1. Is the disk of the database slow or shared (`iostat -x 1`: `w_await`, `%util`)? PostgreSQL also waits for synchronous replicas.\n" +
			"2. Is it more load than the machine can take? Compare with [performance.md](performance.md) and [scaling.md](scaling.md).",
	},
	{
		ID: "TimerBackupOld", Cause: "The newest good backup is older than twice `backup_every`. Timers fire as ever.",
		Do: "1. `timer-service health` says why at the part `backup`. Is the folder there, full or read-only? Make room, or lower `backup_keep`.\n" +
			"2. Did a copy fail its check? Try `timer-service backup FILE` on another disk. If that fails too, [restore](recovery.md#restore) the newest good copy.",
	},
	{
		ID: "TimerUnprotected", Cause: "Timers have waited for longer than the broker keeps commands, and the service makes no backups. A lost database would lose them.",
		Do: "1. SQLite: set `backup_every` and `backup_dir`. PostgreSQL: make backups, then silence this alert, since the service does not know of them.\n" +
			"2. Or have the broker keep messages for longer: [how long a timer is protected](recovery.md#how-long-a-timer-is-protected).",
	},
	{
		ID: "TimerBrokerFull", Cause: "More than 80 % of the broker's capacity is used: of the stream or its account on NATS, of the fullest disk on Kafka. The label `limit` names it. A full stream takes no commands and no events.",
		Do: "1. NATS: `nats stream info svc`, `nats account info`. Raise `nats_max_bytes` and restart; for a stream that you made, `nats stream edit svc --max-bytes=16GiB`; for an account, `max_file` of its `jetstream`.\n" +
			"2. The service [removes what is consumed](brokers/nats.md#what-is-at-the-server). The log names the obstacle: `no more can be removed from it`.\n" +
			"3. Kafka: `kafka-log-dirs.sh --describe` shows which topic takes the disk. Enlarge it, or shorten `retention.ms` of that topic.",
	},
	{
		ID: "TimerDiskFull", Cause: "More than 90 % of the file system of the SQLite file is used. On a full one no command is taken and nothing fires.",
		Do: "1. `df -h`: which other files fill it? The embedded NATS server keeps its stream there, up to `nats_max_bytes`; `backup_dir` may be there.\n" +
			"2. Enlarge the volume, or remove files that are not of the service. The file that ends in `-wal` must stay.",
	},
	{
		ID: "TimerOverdue", Red: true, Cause: "For a minute, a timer that is due for more than 5 s has not fired.",
		Do: "1. `timer-service list --due-within 0` shows the timers, `timer-service stats --tenants` how many of each tenant.\n" +
			"2. Does the log say \"firing is paused\"? People did it ([TimerFiringPaused](#timerfiringpaused)), the outbox is full ([TimerOutboxOld](#timeroutboxold)), or the clock jumped ([TimerClockJumped](#timerclockjumped)).",
	},
	{
		ID: "TimerLatenessBurnsFast", Red: true,
		Cause: "The objective is that 99 % of the events reach the broker at most 1 s after the due time. In the last hour and in the last five minutes more than 14.4 % were later: a month of the 1 % is used up in two days. An hour with fewer than 20 events does not count.",
		Do: "1. Compare the panels \"Lateness of events\" and \"Lateness of firing\" of the [dashboard](grafana.json). Both are late: see [TimerCommitsSlow](#timercommitsslow). Events only: see [TimerOutboxOld](#timeroutboxold).\n" +
			"2. Does a producer schedule timers that are due already? They count as late: `timer-service tail commands`.\n" +
			"3. If the objective is wrong for you, change `le=~\"1|1.0\"` to another [bucket](monitoring.md#metrics) in the rules that record `job:timer_events_late`.",
	},
	{
		ID: "TimerLatenessBurnsSlowly", Cause: "The same with more than 6 % late in the last six hours and in the last thirty minutes: a month is used up in five days. Do the same.",
	},
	{
		ID: "TimerOutboxOld", Red: true, Cause: "For a minute, the event of a timer that fired has waited for the broker for more than 5 s.",
		Do: "1. If the broker is red in `timer-service health`: [TimerBrokerDown](#timerbrokerdown).\n" +
			"2. If one topic, queue or partition fails, the log says \"events can't be published, will retry each\", with `destination`: [which ones fail](operations.md#parked-events).\n" +
			"3. Otherwise the stream is full, or the broker too slow for the load.",
	},
	{
		ID: "TimerEventsParked", Red: true, Cause: "The broker refused an event for good, five times: it is too large, or the topic is not allowed. Its consumer does not get it until you act.",
		Do: "1. `timer-service parked list` says why. Remove the cause: permissions, the limit of a message's size, the missing topic.\n" +
			"2. [Send them again](operations.md#parked-events).",
	},
	{
		ID: "TimerInvalidCommands", Cause: "More than 1 % of the commands of ten minutes were refused, for five minutes. Often a producer was deployed with a mistake.",
		Do: "`timer-service dlq list --limit 20` shows tenants and [reasons](messages.md#dead-letters). Tell the producer: it must send those commands again, correctly.",
	},
	{
		ID: "TimerDeadLetters", Cause: "Commands became dead letters in the last 15 minutes. Their timers do not exist, or were not changed.",
		Do: "`timer-service dlq list --since 1h`. Remove the cause, then [replay or discard](operations.md#dead-letters).",
	},
	{
		ID: "TimerOverQuota", Cause: "A tenant has exceeded its quota for 15 minutes. Its commands wait at the broker; no other tenant is delayed.",
		Do: "The log line \"a tenant exceeds its quota\" names tenant and limit. Raise the [quota](quotas.md), or have the tenant send less.",
	},
}
