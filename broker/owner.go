package broker

import (
	"context"
	"regexp"
	"strings"
)

// An Owner is the database whose service takes commands from a broker. If two databases
// shared the commands each would get a part: one a timer, the other its cancellation.
type Owner struct {
	Database string // id that the database got when it was made; without spaces
	Broker   string // id that the first owner gave the broker, and later owners keep; without spaces
	Name     string // kind and place of the database, for people
}

// String returns the owner as a driver keeps it, the ids first.
func (o Owner) String() string { return o.Database + " " + o.Broker + " " + o.Name }

// ParseOwner parses the String of an owner, or the beginning of one that was cut. It
// returns the zero Owner if s does not begin with two ids, so that a record that is not ours
// counts as absent.
func ParseOwner(s string) (o Owner) {
	o.Database, s, _ = strings.Cut(s, " ")
	o.Broker, o.Name, _ = strings.Cut(s, " ")
	if !ownerID.MatchString(o.Database) || !ownerID.MatchString(o.Broker) {
		return Owner{}
	}
	return o
}

var ownerID = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// Owners keeps the owners of commands at a broker.
type Owners interface {
	// Claim makes owner the owner of the commands that a role takes, if they have none or if
	// takeover is set. It returns the owner from now on. Two owners are the same if their
	// Database is. In that case nothing changes, and the stored owner is returned.
	//
	// The broker keeps the owner as long as the position of the role. The owner outlives
	// connections, and no message to a topic of the routing changes it. Who can change it is up
	// to the broker:
	//
	//   - NATS: a user that may publish to the owner's subject and delete its message. Where
	//     producers share the account of the stream, the server stores answers to them there
	//     until there is an owner; these count as absent.
	//   - Kafka: a user that may read as the group of owners, since it may commit its offsets.
	//   - RabbitMQ: a user that may configure the queue of the owner, and so delete it.
	//   - gochannel: this process.
	//
	// If several processes claim at once, one of them learns, at the latest when it claims
	// again, that it is the owner, and the others learn its name. Claim returns an
	// [ErrUnavailable] while there is no connection, and [errors.ErrUnsupported] if the broker
	// can't keep an owner.
	Claim(ctx context.Context, role string, owner Owner, takeover bool) (Owner, error)
}
