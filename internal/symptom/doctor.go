package symptom

// The doctor finds these on this machine, in the order of its lines.
var (
	Relaxed   = Symptom{Part: "settings", Text: "durability is relaxed: a loss of power may lose the newest commands", Do: "set it to strict, unless speed matters more"}
	InProcess = Symptom{
		Part: "settings", Text: "broker is gochannel: messages are lost when the process ends, and no other process can send any",
		Do: "choose another broker, unless this is a test",
	}
	TokenInClear = Symptom{
		Part: "settings", Text: "tokens go over the network in clear: other machines reach http_addr, %s, without TLS",
		Do: "set http_tls_cert and http_tls_key; or http_trusted_proxies, if a proxy with TLS alone reaches the address",
	}
	PortTaken   = Symptom{Part: "http", Text: "another program is on %s, or the address is wrong: %s", Do: "end that program, or set http_addr to a free address of this machine"}
	SocketTaken = Symptom{Part: "http", Red: true, Text: "%v", Do: "find out who that user is, and remove the socket"}
	FileMissing = Symptom{Part: "files", Red: true, Text: "%v", Do: "make the file, or correct the setting"}
	FileOpen    = Symptom{
		Part: "files", Red: true, Text: "others may read or write %[1]s (owner %[2]s, group %[3]s, mode %04[4]o): %[5]s",
		Do: "as root, run `chown %[2]s:%[6]s %[1]s && chmod %04[7]o %[1]s`, where the group is one of the user that the service runs as",
	}
	FolderRefused = Symptom{Part: "disk", Red: true, Text: "%v", Do: "the service would not start: do as the message says"}
	LittleSpace   = Symptom{Part: "disk", Text: "%s has %s free", Do: "free space before it is full: then no command is taken"}
	NetworkDisk   = Symptom{Part: "disk", Red: true, Text: "%s is on a network file system (%s), on which SQLite's locks are not reliable", Do: "use a local disk, or PostgreSQL with db_url"}
	InMemory      = Symptom{Part: "disk", Text: "%s is in memory (tmpfs): a restart of the machine loses it", Do: "use a disk, unless this is a test"}
	SchemaNewer   = Symptom{Part: "schema", Red: true, Text: "version %d is newer than %d, which this binary knows", Do: "use the newer binary, or restore a backup of before"}
	SchemaOlder   = Symptom{Part: "schema", Text: "version %d is older than %d: this binary migrates it", Do: "make a backup, then start the service, or run `timer-service migrate`"}
	Unusable      = Symptom{Part: "database", Red: true, Text: "%s: %s", Do: "the service would not start: correct what the message names"}
	DatabaseFails = Symptom{Part: "database", Red: true, Text: "%s: %s", Do: "see that a server runs at db_url, or that this user may use the file and its folder and no program holds its lock (`lsof`); docs/troubleshooting.md has the message"}
	NoGrants      = Symptom{
		Part: "permissions", Red: true, Text: "the role may not read and change %s",
		Do: "`GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA … TO the role of db_url`",
	}
	NoChecksums = Symptom{
		Part: "checksums", Text: "data_checksums is off: damage on the disk may stay unnoticed, and a timer may fire with wrong data",
		Do: "stop the server, and run `pg_checksums --enable`",
	}
	Parked = Symptom{
		Part: "outbox", Text: "events that the broker refused, and that are parked: %d",
		Do: "see why: `timer-service parked list`; then: `timer-service parked retry --all`",
	}
	WrongBroker    = Symptom{Part: "broker", Red: true, Text: "%s", Do: "correct the setting or the file that it names"}
	BrokerAway     = Symptom{Part: "broker", Red: true, Text: "no answer from %s: %s", Do: "start the broker, repair the network, or correct broker_url; of an embedded server see the log of the service"}
	NoPermission   = Symptom{Part: "permissions", Red: true, Text: "%s", Do: "give the user what docs/brokers names, or use the right server"}
	NotProvisioned = Symptom{Part: "stream", Red: true, Text: "%s is missing", Do: "an administrator makes it with: `timer-service provision`"}
	Unfit          = Symptom{Part: "stream", Red: true, Text: "%s", Do: "set it as the message says, or name another stream, topic or queue"}
	StreamFull     = Symptom{
		Part: "limits", Red: true, Text: "of the %s %d %% are used",
		Do: "raise it, or find the consumer that does not keep up: a full stream refuses commands and events",
	}
	KeepsLonger = Symptom{
		Part: "limits", Text: "the stream keeps commands for longer than retention, %s: one that is delivered again after its timer was deleted would make the timer again",
		Do: "set max_age of the stream below retention, or retention above it",
	}
	Foreign = Symptom{
		Part: "broker", Text: "a message that the service has not published is stored on %s",
		Do: "it is mostly an answer of the server to a producer that named this subject for it: give each tenant an account of its own (docs/brokers/nats.md)",
	}
	OwnerNew = Symptom{
		Part: "owner", Text: "the commands belong to %s (id %s), and this database is empty",
		Do: "with NATS or Kafka `timer-service serve` takes them over and recovers the timers, if no other service uses them; otherwise stop that one, or: `timer-service serve --takeover`",
	}
	OwnerOther  = Symptom{Part: "owner", Red: true, Text: "the commands belong to %s (id %s), this is %s (id %s)", Do: "use that database, or start once with --takeover"}
	ClockOff    = Symptom{Part: "clock", Text: "the clock of %s is ahead of this machine's by %v: timers are early or late by that", Do: clocks}
	Uncounted   = Symptom{Part: "backup", Text: "how many timers only a backup protects is unknown: %v", Do: "make backups"}
	Unprotected = Symptom{Part: "backup", Text: "%v", Do: "make backups: set backup_every, or `timer-service backup`; PostgreSQL: `pg_dump`, or those of your provider"}
	NoAnswer    = Symptom{Part: "all", Red: true, Text: "no answer within %v", Do: "the network drops packets, or the server hangs: see that it runs, and what a firewall does"}
)

// clocks is the advice about clocks.
const clocks = "compare with a right clock (`chronyc tracking`, `timedatectl`), and set the one that is wrong"
