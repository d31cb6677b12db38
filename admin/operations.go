package admin

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"
)

// These are paths that several operations have.
const (
	pathTimer  = "/v1/tenants/{tenant}/timers/{call}"
	pathTimers = "/v1/tenants/{tenant}/timers"
	pathTenant = "/v1/tenants/{tenant}"
)

// Operations is the table of operations.
var Operations = []Operation{
	read("get-timer", pathTimer, tenantToken, "A timer, with its data, and where its event is", (*api).timer),
	read("list-timers", pathTimers, tenantToken, "Timers of a tenant, by service call", (*api).list),
	read("find-timers", "/v1/timers", adminToken, "Timers of all tenants, by correlation id or by due time: one of the two must be given", (*api).find),
	read("list-tenants", "/v1/tenants", adminToken, "Tenants that have timers, and how many", (*api).tenants),
	read("get-tenant", pathTenant, tenantToken, "How many timers a tenant has", (*api).tenantStats),
	read("get-stats", "/v1/stats", adminToken, "How many timers and events there are, and how late they are", (*api).stats),
	read("get-upcoming", "/v1/upcoming", filtered, "How many timers are due in each of the next intervals, and of whom", (*api).upcoming),

	row(Operation{ID: "schedule-timer", Verb: "schedule", Method: http.MethodPut, Path: pathTimer, Summary: "Schedule a timer: publish a ScheduleTimer, or, in a program without a broker, apply it at once", rule: tenantToken, tune: tuneSchedule}, (*api).schedule),
	row(Operation{ID: "cancel-timer", Verb: "cancel", Method: http.MethodDelete, Path: pathTimer, Summary: "Cancel a timer: publish a CancelTimer, or, in a program without a broker, apply it at once", rule: tenantToken, tune: tuneCommand}, (*api).cancel),
	row(Operation{
		ID: "cancel-timers", Verb: "cancel", Method: http.MethodDelete, Path: pathTimers, rule: tenantToken, tune: tuneSelection,
		Summary: "Cancel the timers of a prefix, of a correlation id, or of service calls, by a CancelTimers. Exactly one of the three must be given",
	}, (*api).cancelMany),
	row(Operation{
		ID: "reschedule-timers", Method: http.MethodPost, Path: pathTimers + ":reschedule", rule: tenantToken, tune: tuneSelection,
		Summary: "Move the timers of a prefix, of a correlation id, or of service calls, one of the three, to a time (to, or in from now), by a RescheduleTimers. With by each is moved by a duration, by a ScheduleTimer of its own",
	}, (*api).rescheduleMany),
	row(Operation{
		ID: "publish-commands", Verb: "publish", Method: http.MethodPost, Path: commandsPath, Summary: "Publish, or apply, many commands", rule: filtered, tune: tuneLines,
		About: "A body of lines, at most 1000 in 1 MiB, each of which is the envelope of a ScheduleTimer, ScheduleTimers, RescheduleTimers, CancelTimer or CancelTimers. With the control character RS before each (application/json-seq) they may have line breaks. The answer has a line for each that is not empty, in their order. " +
			"Each command is published with an id of its own for the broker: one that is sent again is published again, and the service ignores its version, which it has.",
	}, (*api).publishLines),

	live(row(Operation{ID: "list-dead-letters", Method: http.MethodGet, Path: "/v1/dead-letters", Summary: "Dead letters, oldest first", rule: filtered}, (*api).deadLetters)),
	row(Operation{ID: "replay-dead-letters", Method: http.MethodPost, Path: "/v1/dead-letters:replay", Summary: "Publish the originals of dead letters once more, the oldest first, and remove the dead letters", rule: filtered}, (*api).replay),
	row(Operation{ID: "discard-dead-letters", Method: http.MethodPost, Path: "/v1/dead-letters:discard", Summary: "Remove dead letters for good, the oldest first", rule: filtered}, (*api).discard),

	read("list-parked-events", "/v1/parked", filtered, "Events that the broker refused for good, newest first", (*api).parkedEvents),
	row(Operation{ID: "retry-parked-events", Method: http.MethodPost, Path: "/v1/parked:retry", Summary: "Put parked events back into the outbox, as if they were new", rule: filtered}, (*api).retryParked),
	row(Operation{ID: "discard-parked-events", Method: http.MethodPost, Path: "/v1/parked:discard", Summary: "Delete parked events for good: their timers stay Reached or Expired", rule: filtered}, (*api).discardParked),

	live(read("get-clock", "/v1/clock", filtered, "The time by which timers fire", (*api).clock)),
	row(Operation{
		ID: "advance-clock", Method: http.MethodPost, Path: "/v1/clock:advance", rule: adminToken,
		Summary: "Move the clock of a service under test on, from one due time to the next, and answer when all that became due was published",
	}, (*api).advance),

	read("get-firing", "/v1/firing", adminToken, "Whether timers fire, or firing is paused of all tenants or of some", (*api).firing),
	row(Operation{ID: "pause-firing", Method: http.MethodPost, Path: "/v1/firing:pause", Summary: "Fire no timer of any tenant, or of one, until a time or until firing is resumed. A pause that there is gets the new end", rule: adminToken}, (*api).pause),
	row(Operation{ID: "resume-firing", Method: http.MethodPost, Path: "/v1/firing:resume", Summary: "Fire again, overdue timers first. A tenant that was paused by name is resumed by name", rule: adminToken}, (*api).resume),
	row(Operation{
		ID: "refire-timers", Method: http.MethodPost, Path: "/v1/timers:refire", rule: adminToken,
		Summary: "Publish the events of timers again that were reached or expired since a time, under the same ids",
	}, (*api).refire),
	row(Operation{ID: "forget-tenant", Verb: "tenants forget", Method: http.MethodDelete, Path: pathTenant, Summary: "Delete all timers and parked events of a tenant", rule: adminToken}, (*api).forget),

	live(read("list-quotas", "/v1/quotas", filtered, "Limits and usage of tenants", (*api).quotas)),
	live(read("list-nodes", "/v1/nodes", adminToken, "Instances that share the database", (*api).nodes)),
	live(read("list-actions", "/v1/audit", adminToken, "What people changed on this instance, the last 200, newest first, without commands of the API. The log has all, as \"an operator changed something\"", (*api).auditLog)),
	live(row(Operation{
		ID: "listen", Method: http.MethodGet, Path: "/v1/events", Summary: "What happens on this instance, as server-sent events", rule: filtered, tune: tuneEvents,
		About: "Commands: `scheduled`, `canceled`, `ignored` (no effect: stale, reached or expired), `rejected` (over its quota, or the database failed; it comes again), `dead-lettered`. " +
			"Timers: `reached`, `expired`, `published` (acked by the broker), `parked`. `heartbeat` every 15 s. `end` is the last event, if the server ends the connection. " +
			"Nothing is repeated that happened while no connection was there. At most 50 connections are open, together with those of /v1/messages, and at most 10 with the tokens of one tenant.",
	}, (*api).listen)),
	live(row(Operation{
		ID: "tail", Verb: "tail", Method: http.MethodGet, Path: "/v1/messages/{kind}", Summary: "Messages at the broker from now on, as lines of JSON", rule: filtered,
		tune: func(a *api, op *huma.Operation) { op.Responses["200"] = answerOf[Message](a, JSONLines, aLineForEach) },
		About: "No message is taken from another consumer, and none is repeated: a client that reads too slowly misses some. An empty line every 15 s says that the connection works. " +
			"Where the broker can't listen to the topics of all tenants at once, name one. At most 50 connections are open, together with those of /v1/events, and at most 10 with the tokens of one tenant.",
	}, (*api).messages)),
}

// aLineForEach describes an answer of lines.
const aLineForEach = "A line for each. The schema is that of a line."

// tuneCommand describes an operation that publishes a command.
func tuneCommand(a *api, op *huma.Operation) {
	op.DefaultStatus = http.StatusAccepted
	op.Responses["200"] = answerOf[Command](a, "application/json", "It took effect: with wait, and without a broker")
}

func tuneSchedule(a *api, op *huma.Operation) {
	tuneCommand(a, op)
	op.MaxBodyBytes, op.SkipValidateBody = maxCommand, true
	op.Errors = append(op.Errors, http.StatusBadRequest, http.StatusPreconditionFailed, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
}

func tuneSelection(_ *api, op *huma.Operation) { op.DefaultStatus = http.StatusAccepted }

func tuneLines(a *api, op *huma.Operation) {
	op.MaxBodyBytes, op.SkipValidateBody, op.Errors = MaxCommandsBytes+1, true, append(op.Errors, http.StatusRequestEntityTooLarge)
	op.Responses = map[string]*huma.Response{"200": answerOf[LineResult](a, JSONLines, aLineForEach)}
}
