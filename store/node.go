package store

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"os"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// NewNode returns this instance, which starts now: a store makes one when it is made.
func NewNode(version string) timer.Node {
	var id [4]byte
	_, _ = rand.Read(id[:])  // never fails
	host, _ := os.Hostname() // for people
	return timer.Node{
		ID: hex.EncodeToString(id[:]), Host: host, PID: os.Getpid(), Version: version,
		Started: time.Now().UTC().Truncate(time.Second), Self: true, //nolint:forbidigo // for people
	}
}

// Shared is what instances have in common that share a database. Methods are safe for
// concurrent use.
type Shared interface {
	// Attach notes that this instance uses the broker with an id, of that name for
	// people. If instances run that use another one it returns the name of that, and
	// changes nothing unless takeover: then those learn it when they call Attach again.
	Attach(ctx context.Context, broker, name string, takeover bool) (other string, err error)

	// Now returns the time by the clock of the database.
	Now(ctx context.Context) (time.Time, error)

	// Instances returns how many instances share the database, at least one. It is
	// called often and does not block.
	Instances() int
}
