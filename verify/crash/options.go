package crash

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/event-service-agent/timer-service/internal/natsd"
)

// Options say what to do. The zero value of a field takes its default.
type Options struct {
	Bin       string        // the service; built if empty
	Old       string        // in Upgrade: commit of the older version; default the newest tag
	Broker    Kind          // default [NATS]
	Servers   int           // of [NATS], each a process, which replicate the stream: 1 (the default) or 3
	Sync      string        // of three servers: their sync_interval; default that of the server
	Queues    string        // on [RabbitMQ]: type of the queues, classic or quorum; default the service's
	URL       string        // of a Kafka that runs already, whose topics of the service are deleted at first
	Harm      Harm          // in Outside: the fault, with a pause between two of them
	Store     Store         // default [SQLite]
	Instances int           // of the service, which share the database and the broker; default 1
	Mode      Mode          // default [Kill]
	Quiet     bool          // in Wipe and Rollback: nothing is sent after a loss until all timers are due; see loseQuietly
	Kills     int           // how often that is done, in Step at each step; default 10
	Steps     []string      // in Step: where, see [Steps]; default everywhere
	Rate      int           // commands a second; default 200
	Seed      uint64        // of the commands and of the faults; the same seed sends the same commands at other times
	Settle    time.Duration // how long the service may take to come to rest; default 2m
	Dir       string        // where the directory of the run is made; default the system's for temporary files
	Keep      bool          // keep that directory even if nothing is wrong
	Progress  io.Writer     // a line now and then; default none
	Disk      Disk          // in Power and PowerEmbedded: where the database is
	Settings  []string      // of each instance, as NAME=VALUE

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
