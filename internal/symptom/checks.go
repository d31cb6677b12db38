package symptom

// The checks of a running service find these, in the order of the flow.
var (
	StoreFails  = Symptom{Part: "store", Red: true, Text: "%v", Do: "commands wait at the broker and nothing fires: repair the database, it goes on by itself; files that db_url names are read again, a new db_url needs a restart"}
	BrokerFails = Symptom{
		Part: "broker", Red: true, Text: "%v",
		Do: "nothing comes in and nothing goes out, nothing is lost: start the broker or repair the network, it goes on by itself; files that settings name are read again, a new setting needs a restart",
	}
	Recovering = Symptom{
		Part: "owner", Red: true, Text: "the database is recovered from the broker: %d commands and %d events were read, about %d are left",
		Do: "nothing is taken and nothing fires before it ends, by itself",
	}
	OwnerUnknown = Symptom{
		Part: "owner", Red: true, Text: "it is not known yet which database owns the commands",
		Do: "no command is taken before the broker says so: see the check of the broker, and the log",
	}
	IntakePaused = Symptom{
		Part: "intake", Red: true, Text: "the database fails: commands wait",
		Do: "see the check of the store, and the log: a disk that is full or read-only, a lock that another program holds",
	}
	LettersMissed = Symptom{
		Part: "intake", Text: "%d dead letters of tenant %s were published without their bodies, or not at all: it sends more invalid commands than dead_letter_bytes allows, or the broker is full",
		Do: "find out who sends them: the log has the first id of each minute; discard its dead letters, or raise dead_letter_bytes",
	}
	IntakeClosed = Symptom{Part: "intake", Red: true, Text: "commands are not taken yet", Do: "see the check of the owner"}
	InboxTotal   = Symptom{
		Part: "inbox", Red: true, Text: "%d MiB of messages wait in the inbox, as many as may of all tenants together, most of tenant %s: commands of any tenant over its quota are dead letters",
		Do: "raise inbox_total_bytes, if the disk has space, or the quota of that tenant; give tenants that flood the service a quota with the policy dead_letter",
	}
	InboxPaused = Symptom{
		Part: "inbox", Red: true, Text: "commands of tenant %s are not taken: handling them fails, and %d of its messages wait in the inbox, as many as may",
		Do: "see the log for the error, and correct it, such as a permission on its topic of dead letters, or a middleware of the host; its commands go on by themselves then",
	}
	MessagesFail = Symptom{
		Part: "inbox", Red: true, Text: "handling %d messages of tenant %s fails, the first of them since %s%s",
		Do: "see the log for the error, and correct it: they wait in the inbox and are tried again every few minutes, until max_wait is over and each is a dead letter with the reason not_handled",
	}
	InboxFull = Symptom{
		Part: "inbox", Text: "%[2]d messages of tenant %[1]s wait in the inbox, as many as may%[3]s: its commands over a quota are dead letters",
		Do: "raise its quota or inbox_messages, inbox_bytes and inbox_total_bytes; replay its dead letters with the reason over_quota later",
	}
	PollFailed  = Symptom{Part: "poller", Red: true, Text: "the last poll failed: %v", Do: "timers are late: see the check of the store"}
	PollerEnded = Symptom{Part: "poller", Red: true, Text: "it does not run", Do: "see the check of the owner; if that is green, restart the service and report this"}
	PollSlow    = Symptom{Part: "poller", Red: true, Text: "a poll takes %v so far", Do: "timers are late: the database is slow, or another program holds a lock"}
	PollMissing = Symptom{
		Part: "poller", Red: true, Text: "a poll should have begun %v ago",
		Do: "timers are late: the machine has no CPU time to spare, or the process was stopped",
	}
	CatchingUp = Symptom{
		Part: "poller", Text: "nothing fires before the commands that wait at the broker were read",
		Do: "this ends by itself within catch_up_timeout once the broker is there",
	}
	FiringPaused = Symptom{
		Part: "poller", Text: "firing is paused since %v",
		Do: "commands are taken, timers fire late: resume firing when the reason for the pause is gone",
	}
	TenantPaused = Symptom{
		Part: "poller", Text: "firing of %s is paused since %v%s",
		Do: "the tenant's commands are taken, its timers fire late: resume its firing when the reason for the pause is gone; `timer-service stats` names all that are paused",
	}
	OutboxFull  = Symptom{Part: "poller", Text: "nothing fires while many events wait in the outbox", Do: "see the check of the forwarder"}
	ClockJumped = Symptom{
		Part: "clock", Red: true, Text: "the clock jumped forward by more than a minute: nothing fires until the database or the broker agrees",
		Do: "compare the clock of this machine with a right one (`chronyc tracking`, `timedatectl`), and set it",
	}
	ClockBehind = Symptom{
		Part: "clock", Red: true, Text: "the clock is behind that of the database or the broker by more than a minute: timers fire late",
		Do: "compare the clock of this machine with a right one (`chronyc tracking`, `timedatectl`), and set it",
	}
	NoShard = Symptom{
		Part: "forwarder", Red: true, Text: "it has no shard of the outbox",
		Do: "see the check of the store: a shard needs a connection of its own to PostgreSQL",
	}
	HandlerStuck = Symptom{
		Part: "forwarder", Red: true, Text: "no event was handled for %v, and some wait",
		Do: "the handler of OnDue ignores the end of its context: see where its goroutines wait",
	}
	HandlerFails = Symptom{
		Part: "forwarder", Text: "%d events have failed in the handler of OnDue for ten minutes or longer, such as %v",
		Do: "correct what the error names: the events are tried again for days, and all of them when the program starts",
	}
	DestinationFails = Symptom{
		Part: "forwarder", Text: "%s takes no events: %s, the first of them since %s%s; the last error: %s",
		Do: "correct what the error names, such as a queue that is full or a permission; other events leave meanwhile, and these are tried again every few seconds; `timer-service stats` names all destinations",
	}
	EventsParked = Symptom{
		Part: "forwarder", Text: "events are parked, of which the handler of OnDue says that no attempt can help, such as %v: %s",
		Do: "correct the handler and retry the events with Timers.Retry, or discard them",
	}
	EventsUnclaimed = Symptom{
		Part: "forwarder", Red: true, Text: "events wait, since no instance that runs has a handler of OnDue with a prefix of their service calls: %s",
		Do: "start a program that has one: Timers.OnDue with the prefix, or with \"\" for all that no other handler has; they are handled at once then",
	}
	ForwarderStuck = Symptom{
		Part: "forwarder", Red: true, Text: "no event has left for %v, and some wait",
		Do: "see the checks of broker and store, and the log for the destination that does not answer",
	}
	RowsUnmoved = Symptom{
		Part: "forwarder", Red: true, Text: "events can't be deferred, parked or deleted: %v",
		Do: "give the role of the service all rights on the table that the error names",
	}
	Unchecked = Symptom{
		Part: "health", Red: true, Text: "nothing was checked for %v",
		Do: "the process was stopped, or has no CPU time: if this lasts, restart it",
	}
	LogLarge = Symptom{
		Part: "log", Text: "the log of the database, %s, has %d MiB: another program reads the file in one transaction, and until that ends nothing of the log is used again",
		Do: "find it and end it (`fuser %[1]s`): the log grows until the disk is full; it shrinks by itself then",
	}
	BackupOld = Symptom{
		Part: "backup", Text: "there is no good backup of the last %[1]v%[2]s",
		Do: "see that there is space in %[3]s and that the service may write there; the log names each failure",
	}
)
