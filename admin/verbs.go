package admin

// A Verb is how people ask for operations on the command line.
type Verb struct {
	Name  string // such as "dlq list"
	Help  string // one line
	About string // shown below: a description, then examples
	// Args are the parameters without a flag, in order: "tenant", "tenant?" if it may be left out,
	// "id*" for none or more, each of which is a request of its own, "id+" for one or more.
	Args  []string
	Also  any      // a struct with flags that are no parameters, described as parameters are; may be nil
	Omit  []string // parameters that are no flags
	Xor   []string // pairs of flags that exclude each other
	Cases []Case   // the first one that applies is asked for
}

// A Case is an operation that a verb asks for, and how its answer is printed.
type Case struct {
	ID        string   // of the operation
	If        string   // it applies if this flag or argument is given; always if that is empty
	Needs     []string // one of these flags must be given
	Say       string   // the mistake if none is
	Query     string   // further parameters
	JSONQuery string   // further parameters with -o json

	As      string   // a form of the constants below
	List    string   // the field of the answer that has the rows; empty: the answer is one
	Columns []string // "name=field|form" of a row
	Empty   string   // said if there are no rows
	Absent  string   // "thing|verb" if there is no such thing: its name, and the verb that lists the existing ones
	Exists  []string // one of these fields is not zero if the thing exists
	Sum     string   // the fields, between spaces, of which the answers to several requests are added up, and printed as one
	Each    string   // the operation that is asked for each row, whose answer is printed
}

// These are the forms in which people get answers.
const (
	AsFields  = "fields"  // a line for each field
	AsTable   = "table"   // a table of all rows
	AsResults = "results" // a line for each row at once, and how many there are of each result
)

// Groups are the verbs that have verbs below them, with their help.
var Groups = map[string]string{
	"dlq": "List, show, replay or discard dead letters.", "parked": "List, show, retry or discard events that the broker refused.",
	"quotas": "Show the limits of tenants, and how much of them they use.",
}

// one are the parameters that are no flags of verbs about things that are named.
var one = []string{"limit", "after", "reason", "since", "correlationId"}

// bulkFlags are flags of verbs that change many things, one page after the other.
type bulkFlags struct {
	Rate float64 `query:"rate" example:"N" doc:"The most per second; 0 is no limit."`
}

var timerTable = []string{"tenant=tenantId", "service call=serviceCallId", "state=state", "due at=dueAt", "fired late=latenessMs|late", "correlation=correlationId", "due=dueAt|ago"}

var countFields = []string{"scheduled=scheduled", "reached=reached", "expired=expired", "canceled=canceled"}

var overdueFields = []string{"overdue=overdue|capped", "since=oldestOverdue|when", "held by pause=paused|some", "held by rate=held|some"}

var waitingFields = []string{"over quota=waiting.overQuota|some", "failing=waiting.failed|some", "waiting since=waiting.oldest|when"}

// join returns the columns of several lists.
func join(lists ...[]string) (all []string) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// Verbs are the verbs that ask for operations, and print their answers.
var Verbs = []Verb{
	{
		Name: "get", Help: "Show one timer.", Args: []string{"tenant", "call"},
		About: `Asks the service, or reads the database if none runs. The exit code is 3 if there
is no such timer. For a timer that has fired or expired it says where the event is: waits for
the broker, deferred after a failure, parked, or published. The data of a timer are
printed with --data only, otherwise their size.

Examples:

    timer-service get acme order-1
    timer-service get acme order-1 --data
    timer-service get acme order-1 -o json --db-path /var/lib/timers.db`,
		Cases: []Case{{ID: "get-timer", As: AsFields, Absent: "timer {tenant}.{call}|list {tenant}", Columns: []string{
			"tenant=tenantId", "service call=serviceCallId", "state=state", "due at=dueAt|when", "registered at=registeredAt|when", "expires at=expiresAt|when",
			"expired at=expiredAt|when", "reached at=reachedAt|when", "fired late=latenessMs|late", "canceled at=canceledAt|when", "event=event|event", "event id=event.id",
			"correlation=correlationId", "command=.|command", "data=dataBytes|bytes", "=.|data",
		}}},
	},
	{
		Name: "list", Help: "List the timers of a tenant, or those due soon.", Args: []string{"tenant?"}, Xor: []string{"due-within correlation"},
		About: `Asks the service, or reads the database if none runs. Timers are ordered by
service call, those of --due-within by due time. --limit 0 is all.

Examples:

    timer-service list acme --prefix order-17. --due-before 2h
    timer-service list --due-within 1h
    timer-service list --correlation req-7`,
		Cases: []Case{
			{ID: "list-timers", If: "tenant", As: AsTable, List: "timers", Columns: timerTable, Empty: "no timers"},
			{
				ID: "find-timers", As: AsTable, List: "timers", Columns: timerTable, Empty: "no timers",
				Needs: []string{"due-within", "correlation"}, Say: "name a tenant, or --due-within 1h, or --correlation ID",
			},
		},
	},
	{
		Name: "stats", Help: "Count timers, overdue timers, and events that wait.", Args: []string{"tenant?"}, Xor: []string{"tenant tenants"},
		Also: struct {
			Tenants bool `query:"tenants" doc:"Count the timers of each tenant."`
		}{},
		About: `Asks the service, or reads the database if none runs. The database keeps the counts,
so this is fast for any number of timers. Overdue timers are counted up to 10000.
Undelivered events wait for the broker, which refused parked ones. Destinations that
take none are named, with the reason. Messages that are over a quota, or whose handling
fails, wait in the inbox: a service that is asked counts them. A service that is asked
also says what does not work, and how many timers only a backup protects. The exit code
is 3 if the tenant has no timers.

Examples:

    timer-service stats
    timer-service stats acme
    timer-service stats --tenants -o json`,
		Cases: []Case{
			{
				ID: "list-tenants", If: "tenants", As: AsTable, List: "tenants", Empty: "no timers", Each: "get-tenant",
				Columns: join([]string{"tenant=tenantId"}, countFields, []string{"overdue=overdue|capped", "oldest due=oldestOverdue|ago", "pause=pause.since|ago"}),
			},
			{
				ID: "get-tenant", If: "tenant", As: AsFields, Absent: "timers of tenant {tenant}|stats --tenants", Exists: []string{"scheduled", "reached", "expired", "canceled", "pause", "waiting"},
				Columns: join([]string{"tenant=tenantId"}, countFields, overdueFields, waitingFields, []string{"firing=pause|pause"}),
			},
			{
				ID: "get-stats", As: AsFields,
				Columns: join(countFields, []string{"next due=nextDue|when"}, overdueFields, []string{"undelivered=outbox", "due at=oldestDue|when", "parked=parked"}, waitingFields,
					[]string{"unprotected=unprotected|unprotected", "=failing|destinations", "=firing|firing"}),
			},
		},
	},
	{
		Name: "dlq list", Help: "List dead letters, oldest first.", Omit: []string{"id"},
		About: `Asks a running service; nothing is removed. With -o json there is one object a line,
with the body of the original, and no output if there is no dead letter.

Examples:

    timer-service dlq list
    timer-service dlq list --tenant acme --reason beyond_horizon --since 24h
    timer-service dlq list --correlation req-7
    timer-service dlq list --tenant acme --limit 0 -o json`,
		Cases: []Case{{
			ID: "list-dead-letters", JSONQuery: "body=true", As: AsTable, List: "deadLetters", Empty: "no dead letters",
			Columns: []string{"id=id", "tenant=tenantId", "reason=reason", "last at=lastAt", "count=count", "detail=detail|short", "when=lastAt|ago"},
		}},
	},
	{
		Name: "dlq show", Help: "Show dead letters with their bodies.", Args: []string{"id+"}, Omit: one,
		About: `Prints the fields of a dead letter, and the body of its original: as it is if it
is printable, otherwise in base64. The exit code is 3 if there is no such dead letter.

Examples:

    timer-service dlq show 31b57e33-eb4d-5b11-a6d2-6a5b2d2ffb2c
    timer-service dlq show 31b57e33-eb4d-5b11-a6d2-6a5b2d2ffb2c -o json`,
		Cases: []Case{{
			ID: "list-dead-letters", Query: "body=true", As: AsFields, List: "deadLetters", Absent: "dead letter \"{id}\"|dlq list",
			Columns: []string{
				"id=id", "tenant=tenantId", "reason=reason", "detail=detail", "topic=topic", "position=position", "original=originalId", "first at=firstAt|when",
				"last at=lastAt|when", "count=count", "replays=replays", "correlation=correlationId", "body=.|size", "=.|body",
			},
		}},
	},
	{
		Name: "dlq replay", Help: "Publish the originals of dead letters again.", Args: []string{"id*"}, Also: bulkFlags{}, Xor: []string{"id all"},
		About: `Publishes each original to the commands of its tenant, and removes the dead letter
when the broker has made the original durable. If the service refuses it again,
there is a new dead letter, with the count raised. A dead letter that was replayed
three times stays, and so does one whose body was cut: they are reported as
refused, and the exit code is 1. After an interrupt or a crash nothing is lost: run
it again. The exit code is 3 if there is no dead letter with an id.

Examples:

    timer-service dlq replay --tenant acme --reason beyond_horizon --dry-run
    timer-service dlq replay 31b57e33-eb4d-5b11-a6d2-6a5b2d2ffb2c
    timer-service dlq replay --all --rate 100`,
		Cases: []Case{removeLetters("replay-dead-letters")},
	},
	{
		Name: "dlq discard", Help: "Remove dead letters for good.", Args: []string{"id*"}, Also: bulkFlags{}, Xor: []string{"id all"},
		About: `Removes dead letters from the broker: their originals are lost. The exit code is 3
if there is no dead letter with an id.

Examples:

    timer-service dlq discard 31b57e33-eb4d-5b11-a6d2-6a5b2d2ffb2c
    timer-service dlq discard --tenant acme --reason not_json --dry-run
    timer-service dlq discard --tenant _ --since 24h`,
		Cases: []Case{removeLetters("discard-dead-letters")},
	},
	{
		Name: "parked list", Help: "List parked events, newest first.", Args: []string{"tenant?"}, Omit: []string{"seq"},
		About: `Parked are events that the broker refused again and again: their timers have fired, and
no consumer was notified. Repair the cause, then retry them.

Examples:

    timer-service parked list
    timer-service parked list acme -o json
    timer-service parked list --reason "too large" --since 24h`,
		Cases: []Case{{
			ID: "list-parked-events", As: AsTable, List: "parked", Empty: "no parked events",
			Columns: []string{"seq=seq", "tenant=tenantId", "service call=serviceCallId", "parked at=parkedAt", "attempts=attempts", "reason=reason|short", "when=parkedAt|ago"},
		}},
	},
	{
		Name: "parked show", Help: "Show parked events with their bodies.", Args: []string{"seq+"}, Omit: append(one, "tenant"),
		About: "Examples:\n\n    timer-service parked show 17",
		Cases: []Case{{ID: "list-parked-events", Query: "body=true", As: AsFields, List: "parked", Absent: "parked event {seq}|parked list", Columns: []string{
			"seq=seq", "event id=id", "tenant=tenantId", "service call=serviceCallId", "fired at=appendedAt|when", "parked at=parkedAt|when",
			"attempts=attempts", "reason=reason", "correlation=correlationId", "body=.|size", "=.|body",
		}}},
	},
	{
		Name: "parked retry", Help: "Put parked events back into the outbox, as if they were new.", Args: []string{"seq*"}, Also: bulkFlags{}, Xor: parkedXor,
		About: "Examples:\n\n    timer-service parked retry 17 18\n    timer-service parked retry --all --tenant acme --since 24h",
		Cases: []Case{changeEvents("retry-parked-events")},
	},
	{
		Name: "parked discard", Help: "Delete parked events for good.", Args: []string{"seq*"}, Also: bulkFlags{}, Xor: parkedXor,
		About: "Their timers stay as they are: no consumer learns that they fired.\n\nExamples:\n\n    timer-service parked discard 17\n    timer-service parked discard --all --reason \"too large\"",
		Cases: []Case{changeEvents("discard-parked-events")},
	},
	{
		Name: "pause", Help: "Fire no timer of any tenant, or of one, until firing is resumed.", Args: []string{"tenant?"},
		About: `Commands are taken, and events that wait are published: no timer fires, on any instance
that shares the database, also after a restart. What is paused already stays so, until
the time that is given now. The verb stats says what is paused, and what waits for that.

Examples:

    timer-service pause
    timer-service pause acme
    timer-service pause acme --until 2h
    timer-service pause --until 2030-01-31T12:00:00Z -o json`,
		Cases: []Case{{ID: "pause-firing", As: AsFields, Columns: []string{"=.|firing"}}},
	},
	{
		Name: "resume", Help: "Fire again, overdue timers first.", Args: []string{"tenant?"},
		About: `What is overdue fires first, tenants in turn. A tenant that was paused by name is resumed
by name.

Examples:

    timer-service resume
    timer-service resume acme`,
		Cases: []Case{{ID: "resume-firing", As: AsFields, Columns: []string{"=.|firing"}}},
	},
	{
		Name: "clock show", Help: "Show the time by which timers fire.",
		About: `It is the machine's, except of a service that was started with serve --test-clock.

Examples:

    timer-service clock show
    timer-service clock show -o json`,
		Cases: []Case{{ID: "get-clock", As: AsFields, Columns: []string{"now=now", "test clock=test"}}},
	},
	{
		Name: "clock advance", Help: "Move the clock of a service that was started with serve --test-clock.", Xor: []string{"by to"},
		About: `Goes from one due time to the next, and ends when all that became due was published.

Examples:

    timer-service clock advance --by 3h
    timer-service clock advance --to 2030-01-31T12:00:00Z -o json`,
		Cases: []Case{{ID: "advance-clock", As: AsFields, Columns: []string{"now=now", "reached=reached", "expired=expired", "published=published"}}},
	},
	{
		Name: "reschedule", Help: "Move many timers to another time.", Args: []string{"tenant", "call?"}, Omit: []string{"after"}, Xor: []string{"to in", "to by", "in by", "prefix correlated", "call prefix", "call correlated"},
		About: `Has a running service publish a RescheduleTimers, which moves the timers that wait: of
service calls, of a prefix, or of a correlation id. Their data and their expiry stay, and
one that would be due after it expires is not moved. With --by each timer is moved by as
much, by a command of its own, also if it is run twice.

Examples:

    timer-service reschedule acme --prefix order-17. --by 2h --dry-run
    timer-service reschedule acme --correlated req-7f3a --to 2030-01-31T12:00:00+01:00
    timer-service reschedule acme order-1 order-2 --in 0s`,
		Cases: []Case{{
			ID: "reschedule-timers", As: AsFields, Sum: "timers refused", Columns: []string{"=.|rescheduled"},
			Needs: []string{"to", "in", "by"}, Say: "say when: --to 2030-01-31T12:00:00Z, --in 3s, or --by 2h",
		}},
	},
	{
		Name: "refire", Help: "Publish events again that consumers or the broker lost.", Args: []string{"tenant?"}, Omit: []string{"after"},
		About: `For consumers that lost events, or a broker that lost what it had stored, such as a NATS
server after a power cut. Each event keeps its id and its times: a consumer that
remembers the id drops it, as client.OnDue does. At most 2,000 a second are published,
in the order in which the timers fired, and fewer while the outbox is behind.

It says from when on that is complete: finished timers are deleted after their
retention. The exit code is 1 if not all were published; then run it again.

Examples:

    timer-service refire --since 10m --dry-run
    timer-service refire acme --since 2h --prefix order-17.
    timer-service refire acme --since 2030-01-31T12:00:00Z -o json`,
		Cases: []Case{{ID: "refire-timers", As: AsFields, Sum: "events", Columns: []string{"=.|refired"}}},
	},
	{
		Name: "quotas show", Help: "Show limits and use of tenants.", Args: []string{"tenant?"},
		About: `Asks a running service, which alone knows what is used: tenants with limits of their
own, and tenants that were active in the last minutes.

Examples:

    timer-service quotas show
    timer-service quotas show acme -o json`,
		Cases: []Case{{
			ID: "list-quotas", As: AsTable, List: "tenants", Empty: "no tenant was active, or has limits of its own: timer-service config prints the limits of all",
			Columns: []string{
				"tenant=tenantId", "live=liveTimers", "of=limits.liveTimers|some", "accept/s=limits.acceptRate|some", "fire/s=limits.fireRate|some", "expires after=limits.expireAfterMs|late",
				"over quota=limits.overQuota", "waiting=waiting|some", "exceeded at=exceededAt",
			},
		}},
	},
}

func removeLetters(id string) Case {
	return Case{
		ID: id, As: AsResults, List: "deadLetters", Empty: "no dead letters", Absent: "dead letter \"{id}\"|dlq list",
		Columns: []string{"=.|result", "=id", "=tenantId", "=reason", "=why"},
		Needs:   []string{"id", "all", "tenant", "reason", "correlation", "since"}, Say: "select some with ids, --tenant, --reason, --correlation or --since, or all with --all",
	}
}

var parkedXor = []string{"seq all", "seq tenant", "seq reason", "seq since", "seq correlation"}

func changeEvents(id string) Case {
	return Case{
		ID: id, As: AsResults, List: "parked", Empty: "no parked events", Absent: "parked event {seq}|parked list",
		Columns: []string{"=.|result", "=seq"},
		Needs:   []string{"seq", "all", "tenant", "reason", "correlation", "since"}, Say: "give numbers, or select some with --tenant, --reason, --since or --correlation, or all with --all",
	}
}
