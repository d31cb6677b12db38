package store

import (
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
