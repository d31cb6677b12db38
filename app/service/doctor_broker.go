package service

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/kafka"
	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/broker/nats/embedded"
	"github.com/event-service-agent/timer-service/broker/rabbitmq"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/store/sqlite"
)

// A brokerFound is what is known of the broker.
type brokerFound struct {
	broker.Inspection
	findings []Finding
	reached  bool
	skew     *time.Duration // how far its clock is ahead of ours; nil if that is unknown
}

// credentialsOf matches those of a URL.
var credentialsOf = regexp.MustCompile(`://[^\s"]*@`)

func redactText(text string) string { return credentialsOf.ReplaceAllString(text, "://***@") }

// server checks the broker.
func (x *examination) server(ctx context.Context) (found brokerFound) {
	const check = "broker"
	if x.isUnclear("broker", "nats_", "kafka_", "rabbitmq_", "commands_topic", "events_topic", "dead_letters_topic", "db_path") {
		found.findings = []Finding{warn(check, "correct the settings first", "not checked")}
		return found
	}
	if x.cfg.Broker == config.GoChannel {
		found.findings = []Finding{ok(check, "gochannel lives inside the service: there is nothing to check")}
		return found
	}
	inspect, provision, at, err := x.opened()
	if f, stop := x.embedded(err); stop {
		found.findings = []Finding{f}
		return found
	}
	if err != nil {
		found.findings = []Finding{bad(check, "correct the setting or the file that it names", "%s", oneLine(err))}
		return found
	}
	before := time.Now()
	found.Inspection, err = inspect(ctx)
	took := time.Since(before)
	if err != nil && found.Version == "" {
		do := "start the broker, repair the network, or correct broker_url"
		if x.cfg.Embedded() {
			do = "the service that runs has no answer: see its log, and timer-service health"
		}
		found.findings = []Finding{bad(check, do, "no answer from %s: %s", at, oneLine(err))}
		return found
	}
	found.findings = []Finding{ok(check, "%s answers in %v", at, answered(took))}
	if err != nil {
		found.findings = append(found.findings, bad("permissions", "give the user what docs/brokers names, or use the right server", "%s", oneLine(err)))
		return found
	}
	found.reached = true
	if !found.Now.IsZero() {
		skew := found.Now.Sub(before.Add(took)) // it answers last
		if skew > 0 || skew < -took {
			found.skew = &skew
		} else {
			found.skew = new(time.Duration)
		}
	}
	found.findings = append(found.findings, x.provisions(ctx, provision)...)
	found.findings = append(found.findings, x.limits(found.Inspection)...)
	return found
}

// answered is how long an answer took, for people.
func answered(took time.Duration) string {
	if took < 10*time.Millisecond {
		return "less than 10 ms"
	}
	return fmt.Sprintf("%d ms", took.Milliseconds())
}

// embedded is about an embedded server that does not run.
func (x *examination) embedded(err error) (Finding, bool) {
	if !x.cfg.Embedded() {
		return Finding{}, false
	}
	running, _ := sqlite.LockOwner(x.cfg.DBPath)
	if running == "" || errors.Is(err, ErrNoServer) {
		return ok("broker", "it is embedded in the service: it answers when that runs"), true
	}
	return Finding{}, false
}

// opened returns what inspects the broker as the service would, and what says what it
// would make there, and the address.
func (x *examination) opened() (inspect func(context.Context) (broker.Inspection, error), provision func(context.Context) ([]broker.Change, error), at string, err error) {
	at = redact(x.cfg.BrokerURL.Reveal())
	dry := func(b broker.Broker) func(context.Context) ([]broker.Change, error) {
		return func(ctx context.Context) ([]broker.Change, error) { return b.Provision(ctx, true) }
	}
	switch x.cfg.Broker {
	case config.Kafka:
		opt, err := kafkaOptions(x.cfg)
		b := kafka.New(opt, x.log)
		return func(ctx context.Context) (broker.Inspection, error) { return b.Inspect(ctx, roleName) }, dry(b), at, err
	case config.RabbitMQ:
		opt, err := rabbitOptions(x.cfg)
		opt.Verify = false
		b := rabbitmq.New(opt, x.log)
		return func(ctx context.Context) (broker.Inspection, error) { return b.Inspect(ctx, roleName) }, dry(b), at, err
	}
	opt, err := natsOptions(x.cfg)
	if err == nil && x.cfg.Embedded() {
		if opt.URL, err = readAddress(x.cfg); err == nil {
			at = "the embedded server at " + redact(opt.URL)
			secret, problem := readFile(embeddedDir(x.cfg), secretFile)
			opt.Security, err = nats.Security{Username: embedded.Owner, Password: secret}, problem
		}
	}
	b := nats.New(opt, x.log)
	return b.Inspect, dry(b), at, err
}

// provisions says what is missing at the broker, or does not fit.
func (x *examination) provisions(ctx context.Context, provision func(context.Context) ([]broker.Change, error)) (all []Finding) {
	const check = "stream"
	changes, err := provision(ctx)
	for _, c := range changes {
		if x.cfg.Provision == config.Verify {
			all = append(all, bad(check, "an administrator makes it with: timer-service provision", "%s is missing", c.Object))
		} else {
			all = append(all, ok(check, "%s is made when the service starts: %s", c.Object, c.Detail))
		}
	}
	if err != nil {
		all = append(all, bad(check, "set it as the message says, or name another stream, topic or queue", "%s", oneLine(err)))
	} else if len(changes) == 0 {
		all = append(all, ok(check, "all that the service needs is there, and fits"))
	}
	return all
}

// nearlyFull is how much of its limit a stream may have, in percent.
const nearlyFull = 80

// limits says what the broker keeps, and for how long.
func (x *examination) limits(found broker.Inspection) (all []Finding) {
	const check = "limits"
	if found.Keeps == "" {
		return nil
	}
	age, size := "", ""
	if found.Rereads && x.cfg.Broker == config.NATS {
		age, size = ", kept for ever", ", no size limit"
		if found.MaxAge > 0 {
			age = ", kept for " + config.FormatDuration(found.MaxAge)
		}
	}
	if found.Limit > 0 {
		used := 100 * found.Used / found.Limit
		size = fmt.Sprintf(", %d %% of %s used", used, formatSize(found.Limit))
		if used >= nearlyFull {
			all = append(all, bad(check, "raise max_bytes of the stream, or find the consumer that does not keep up: a full stream refuses commands and events", "the stream has %d %% of its %s", used, formatSize(found.Limit)))
		}
	}
	if x.cfg.Broker == config.NATS && (found.MaxAge == 0 || found.MaxAge >= x.cfg.Retention) {
		all = append(all, warn(check, "set max_age of the stream below retention, or retention above it",
			"the stream keeps commands for longer than retention, %s: one that is delivered again after its timer was deleted would make the timer again", config.FormatDuration(x.cfg.Retention)))
	}
	return append([]Finding{ok(check, "%s%s%s", found.Keeps, age, size)}, all...)
}

// formatSize returns a number of bytes for people.
func formatSize(bytes int64) string {
	const gi, mi = 1 << 30, 1 << 20
	if bytes >= gi {
		return fmt.Sprintf("%.1f GiB", float64(bytes)/gi)
	}
	return fmt.Sprintf("%.0f MiB", float64(bytes)/mi)
}
