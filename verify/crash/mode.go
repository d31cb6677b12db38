package crash

import (
	"math/rand/v2"
	"time"
)

// A Mode is a kind of faults that are injected while the service works. Of several instances a
// fault hits one, any of them; the others go on.
type Mode string

// Modes.
const (
	Kill      Mode = "kill"     // SIGKILL, and a new start, of one that is alone at once
	Term      Mode = "term"     // SIGTERM, wait, and a new start; then nothing may be published twice either
	Stop      Mode = "stop"     // SIGSTOP for one to three seconds, and SIGCONT; of several instances for one to ten
	Broker    Mode = "broker"   // SIGKILL for the broker, of three servers for any one, and a new start after up to a second
	Both      Mode = "both"     // SIGKILL for the broker and the service, and new starts, all in any order
	StoreGone Mode = "store"    // the end of all connections with the database, or none left for a while, or the end of its server and a new start
	Embedded  Mode = "embedded" // SIGKILL for a service that is its own broker, and a new start at once
	Step      Mode = "step"     // the service kills itself at named steps, and is started again at once
	Upgrade   Mode = "upgrade"  // SIGKILL as in Kill, while an older version is replaced by this one

	Failover    Mode = "failover"     // SIGKILL for the primary of the database, and its standby, which has all that was committed, is promoted
	FailoverLag Mode = "failover-lag" // the same without traffic, and the standby lacks the last commands; see failOverLagging

	Leaders      Mode = "leaders"       // of three servers of NATS: the leader of the stream, the consumer or the cluster steps down
	CutOff       Mode = "cut-off"       // of three: one is cut off from the others for one to ten seconds, and clients still reach it
	FreezeServer Mode = "freeze-server" // of three: SIGSTOP for one for one to ten seconds, and SIGCONT
	WipeServer   Mode = "wipe-server"   // of three: SIGKILL for one, its data are deleted, and a new start; the next fault waits until it has all again

	Power         Mode = "power"          // a cut of the power of the disk that has the database, and a new start at once
	PowerEmbedded Mode = "power-embedded" // the same of the disk of a service that is its own broker

	Wipe        Mode = "wipe"         // SIGKILL, the database is deleted, and a new start
	Rollback    Mode = "rollback"     // SIGKILL, an older copy of the database is put in its place, and a new start
	EmptyBroker Mode = "empty-broker" // SIGKILL for the service and the broker, all that the broker has is deleted, and new starts
)

// Outside is a mode in which [Options.Harm] does something to a broker of the caller's.
const Outside Mode = "outside"

// Modes are all modes that need no [Disk].
var Modes = []Mode{Kill, Term, Stop, Broker, Both, StoreGone, Leaders, CutOff, FreezeServer, WipeServer, Embedded, Step, Upgrade, Failover, FailoverLag, Wipe, Rollback, EmptyBroker}

// hitsStarts reports whether processes are hit while they start, too.
func (m Mode) hitsStarts() bool {
	return m == Kill || m == Both || m == Embedded || m == Upgrade || m.cutsPower()
}

// cutsPower reports whether the disk loses its power under the service.
func (m Mode) cutsPower() bool { return m == Power || m == PowerEmbedded }

// embeds reports whether the service is its own broker.
func (m Mode) embeds() bool { return m == Embedded || m == PowerEmbedded }

// failsOver reports whether the database has a standby, which is promoted.
func (m Mode) failsOver() bool { return m == Failover || m == FailoverLag }

// loses reports whether a database or a broker loses its data. Then all
// instances are hit.
func (m Mode) loses() bool { return m.losesDatabase() || m == EmptyBroker }

// losesDatabase reports whether the database is lost, or a part of it.
func (m Mode) losesDatabase() bool { return m == Wipe || m == Rollback }

// hitsServers reports whether servers are hit that clients take a while to
// be back at.
func (m Mode) hitsServers() bool {
	return m == Broker || m == StoreGone || m == Failover || m == Outside || m.hitsCluster()
}

// hitsCluster reports whether there have to be three servers of NATS.
func (m Mode) hitsCluster() bool {
	return m == Leaders || m == CutOff || m == FreezeServer || m == WipeServer
}

// The shortest and the longest times between faults.
var (
	workTime    = span{40 * time.Millisecond, 350 * time.Millisecond}
	firstTime   = span{0, 300 * time.Millisecond} // of the first start, before the power is cut
	stopTime    = span{time.Second, 3 * time.Second}
	brokerOff   = span{0, time.Second}
	storeOff    = span{0, time.Second}
	breather    = span{time.Second, 3 * time.Second} // between faults at servers
	between     = span{0, 200 * time.Millisecond}    // one and the other of broker and service
	workOfMany  = span{40 * time.Millisecond, 1500 * time.Millisecond}
	quietWork   = span{0, 3 * time.Second} // after the last commands, before a loss
	stopOfMany  = span{time.Second, 10 * time.Second}
	instanceOff = span{0, time.Second} // of several
)

const (
	readyTimeout = 60 * time.Second // for a start
	endTimeout   = 60 * time.Second // for a stop
	stepTimeout  = 30 * time.Second // until a step is reached
	maxDeaths    = 5                // of the service by itself, before the run ends

	pollTick = 5 * time.Millisecond // between two polls of what happened to instances
)

type span struct{ least, most time.Duration }

func (s span) any(r *rand.Rand) time.Duration {
	return s.least + time.Duration(r.Int64N(int64(s.most-s.least)+1))
}
