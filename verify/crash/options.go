package crash

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/event-service-agent/timer-service/internal/natsd"
)

// Options say what to do. The zero value of a field takes its default. Those with a help are the flags of timer-crash.
type Options struct {
	Kills     int    `default:"10" help:"How often to kill the service; with --mode step at each step."`
	Broker    Kind   `default:"nats" enum:"nats,kafka,kfake,rabbitmq" help:"Which broker to use: nats, kafka, kfake or rabbitmq."`
	Servers   int    `name:"nats-servers" default:"1" help:"With --broker nats: how many servers, 1 or 3; three replicate the stream."`
	Sync      string `name:"nats-sync" placeholder:"INTERVAL" help:"With --nats-servers 3: their sync_interval, such as always; that of the server by default."`
	Queues    string `enum:",classic,quorum" default:"" placeholder:"TYPE" help:"With --broker rabbitmq: type of the queues, classic or quorum."`
	URL       string `name:"kafka" placeholder:"URL" help:"Use this Kafka, which is for tests: the topics of the service are deleted at first."`
	Store     Store  `default:"sqlite" enum:"sqlite,postgres" help:"Which database to use: sqlite or postgres."`
	Instances int    `default:"1" help:"How many of the service share the database; more than one needs --store postgres."`
	Mode      Mode   `default:"kill" enum:"${modes}" placeholder:"MODE" help:"What to do: ${modes}."`
	Quiet     bool   `help:"With --mode wipe and rollback: send nothing after a loss until all timers are due."`
	Rate      int    `default:"200" help:"Commands a second."`
	Seed      uint64 `help:"Makes the same commands and the same pauses again; 0 takes any."`
	Old       string `placeholder:"COMMIT" help:"With --mode upgrade: the older version; the newest tag if empty."`
	Bin       string `type:"existingfile" placeholder:"FILE" help:"Binary of the service; it is built if there is none."`
	Keep      bool   `help:"Keep the directory with data and logs even if nothing is wrong."`

	Harm     Harm          `kong:"-"` // in Outside: the fault, with a pause between two of them
	Steps    []string      `kong:"-"` // in Step: where, see [Steps]; default everywhere
	Settle   time.Duration `kong:"-"` // how long the service may take to come to rest; default 2m
	Dir      string        `kong:"-"` // where the directory of the run is made; default the system's for temporary files
	Progress io.Writer     `kong:"-"` // a line now and then; default none
	Disk     Disk          `kong:"-"` // in Power and PowerEmbedded: where the database is
	Settings []string      `kong:"-"` // of each instance, as NAME=VALUE

	stepTimeout time.Duration // until a step is reached; default stepTimeout
}

// A Disk is a file system of which the power can be cut.
type Disk interface {
	// Dir is where it is mounted.
	Dir() string

	// Cut takes the power away under a process, has it killed, and mounts the disk again.
	// No other process may have files on it.
	Cut(ctx context.Context, pid int, kill func() error) error
}

func (o Options) withDefaults() Options {
	if o.Broker == "" {
		o.Broker = NATS
	}
	if o.Servers <= 0 {
		o.Servers = 1
	}
	if o.Store == "" {
		o.Store = SQLite
	}
	if o.Instances <= 0 {
		o.Instances = 1
	}
	if o.Mode == "" {
		o.Mode = Kill
	}
	if o.Kills <= 0 {
		o.Kills = 10
	}
	if o.Rate <= 0 {
		o.Rate = 200
	}
	if o.Settle <= 0 {
		o.Settle = 2 * time.Minute
	}
	if o.stepTimeout <= 0 {
		o.stepTimeout = stepTimeout
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	return o
}

// Check returns an error if the options make no sense together.
func (o Options) Check() error {
	o = o.withDefaults()
	if err := o.Broker.check(o.Mode); err != nil {
		return err
	}
	if err := o.checkServers(); err != nil {
		return err
	}
	switch {
	case o.URL != "" && (o.Broker != Kafka || o.Mode == Broker || o.Mode == Both || o.Mode == EmptyBroker):
		return fmt.Errorf("an URL goes with broker %s, and with modes that do not kill it", Kafka)
	case (o.Harm != nil) != (o.Mode == Outside):
		return fmt.Errorf("mode %s needs something to do, and no other", Outside)
	case o.Store != SQLite && o.Store != Postgres:
		return fmt.Errorf("store %q is none of %q", o.Store, Stores)
	case o.Queues != "" && o.Broker != RabbitMQ:
		return fmt.Errorf("a type of queues needs the broker %s", RabbitMQ)
	case o.Store == SQLite && o.Instances > 1:
		return fmt.Errorf("several instances need the store %s", Postgres)
	case o.Store == Postgres && o.Mode.losesDatabase():
		return fmt.Errorf("mode %s needs the store %s", o.Mode, SQLite)
	case o.Store == SQLite && (o.Mode == StoreGone || o.Mode.failsOver()):
		return fmt.Errorf("mode %s needs the store %s", o.Mode, Postgres)
	case o.Instances > 1 && o.Mode.embeds():
		return errors.New("several instances need a broker outside of them")
	case o.Mode.cutsPower() != (o.Disk != nil):
		return fmt.Errorf("the modes %s and %s need a disk, and no others", Power, PowerEmbedded)
	case o.Store == Postgres && o.Mode.cutsPower():
		return fmt.Errorf("mode %s needs the store %s", o.Mode, SQLite)
	case o.Quiet && !o.Mode.losesDatabase():
		return fmt.Errorf("mode %s has no quiet", o.Mode)
	case o.Old != "" && o.Mode != Upgrade:
		return fmt.Errorf("an older version goes with mode %s", Upgrade)
	case o.Instances > 1 && o.Mode == Step:
		return fmt.Errorf("mode %s is for one instance", o.Mode)
	}
	return nil
}

// waits reports whether commands wait for a quota before each other fault.
func (o Options) waits() bool { return o.Quiet || o.Mode == FailoverLag }

// checkServers returns an error if the number of servers makes no sense with the rest.
func (o Options) checkServers() error {
	switch m := o.Mode; {
	case o.Servers != 1 && o.Servers != natsd.Size:
		return fmt.Errorf("there are 1 or %d servers of NATS", natsd.Size)
	case o.Servers == 1 && m.hitsCluster():
		return fmt.Errorf("mode %s needs %d servers of %s", m, natsd.Size, NATS)
	case o.Servers == 1 && o.Sync != "":
		return fmt.Errorf("a sync interval needs %d servers of %s", natsd.Size, NATS)
	case o.Servers > 1 && (o.Broker != NATS || m.embeds() || m.cutsPower() || m == Both || m == EmptyBroker):
		return fmt.Errorf("mode %s on %s can't have %d servers", m, o.Broker, o.Servers)
	}
	return nil
}
