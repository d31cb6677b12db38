// Command timer-crash kills the timer service again and again while it works,
// and checks that no timer was lost: timer-crash --help lists its flags.
package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/event-service-agent/timer-service/verify/crash"
	"github.com/event-service-agent/timer-service/verify/internal/command"
)

const description = `Starts a broker and the service, one or several instances of it on one
database, sends it commands, and kills it again and again. When all has come to
rest it checks, from what a client can see, that every timer fired or was
canceled, that none fired early, twice or for nothing, and that every invalid
message is in the dead letters.

Without --bin it builds the service, so it runs in the module of the service.

Modes: kill (SIGKILL), term (SIGTERM and wait), stop (SIGSTOP for a while),
broker (SIGKILL for the broker), both (SIGKILL for broker and service), store
(the end of all connections with the database, or others have them all, or the
server is stopped or killed, and started again), embedded (SIGKILL for a service with the broker inside), step (the
service kills itself when it passes a step in its code; that has to be built
with -tags failpoint). Of several instances a fault hits any one, and the
others go on.

Mode upgrade begins with an older version, that of the commit --old, kills the
instances as in kill, starts one of the version under test next to them, and then
replaces the others with it, one at each kill. A file has one instance, which is
replaced while it is killed.

Modes that kill the primary of PostgreSQL, and promote its standby: failover (the
standby has all that was committed), failover-lag (it lacks the last transaction
that was acked, and nothing is sent until all timers are due; of several
instances the one that committed it dies, too; before each other failover 300
commands wait for a quota).

Modes that lose what is stored, in which all instances are hit: wipe (SIGKILL,
and the database is deleted), rollback (SIGKILL, and an older copy of the
database is put in its place, which was made while the service ran),
empty-broker (SIGKILL for broker and service, and all that the broker has is deleted). In them an event that the
broker had a second before the kill must not be published again. With --quiet
all timers fire before a loss, the service acks its last commands, and nothing
is sent until the timers of these are due; before each other loss 300 commands
wait for a quota.

Brokers: nats (nats-server, part of this program), kafka (Apache Kafka, for which
Java 17 and Maven have to be installed), kfake (a server that speaks Kafka's protocol
and is part of this program), rabbitmq (RabbitMQ, which has to be
installed). With --kafka the run uses a Kafka that is there. Modes that kill the
broker need nats or kafka; modes that lose stored data need a broker that keeps
messages after their ack.

With --nats-servers 3 the broker is three processes of nats-server, whose stream
has three replicas. Mode broker kills any one of them. These modes need them:
leaders (the leader of the stream, the consumer or the cluster steps down),
cut-off (one server is cut off from the others, and clients still reach it),
freeze-server (SIGSTOP for one server), wipe-server (SIGKILL for one server,
whose data are deleted). What a server has acked must be in the stream at the end.

Stores: sqlite, postgres. With postgres the run starts a server, for which
PostgreSQL has to be installed.

Exit codes: 0 nothing is wrong, 1 something is, or the test could not run, 2
wrong flags.`

func main() {
	crash.BrokerMain()
	var opt crash.Options
	var modes []string
	for _, m := range crash.Modes {
		modes = append(modes, string(m))
	}
	os.Exit(command.Main("timer-crash", description, &opt, func(ctx context.Context, _ string) error { return run(ctx, opt) }, kong.Vars{"modes": strings.Join(modes, ",")}))
}

func run(ctx context.Context, opt crash.Options) error {
	opt.Progress = os.Stderr
	if opt.URL != "" {
		opt.Broker = crash.Kafka
	}
	if err := opt.Check(); err != nil {
		return command.WithCode(command.Usage, err)
	}
	if opt.Seed == 0 {
		opt.Seed = rand.Uint64N(1<<32) + 1
	}
	fmt.Fprintf(os.Stderr, "seed %d\n", opt.Seed) // at once, so that a test that hangs can be repeated
	report, err := crash.Run(ctx, opt)
	report.Write(os.Stdout)
	if err == nil && report.Violations() > 0 {
		err = command.ErrFailed
	}
	return err
}
