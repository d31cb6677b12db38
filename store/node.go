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

// A Shared is a database that instances share, as far as they have to agree. Methods are safe
// for concurrent use.
type Shared interface {
	// Attach notes that this instance uses the broker with an id; name is for people. If
	// running instances use another broker, it returns the name of that broker and changes
	// nothing. With takeover it notes the new broker all the same, and those instances
	// learn it when they call Attach again.
	Attach(ctx context.Context, broker, name string, takeover bool) (other string, err error)

	// Now returns the time by the clock of the database.
	Now(ctx context.Context) (time.Time, error)

	// Instances returns how many instances share the database, at least one. It is
	// called often and does not block.
	Instances() int
}
