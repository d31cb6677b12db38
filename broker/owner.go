package broker

import (
	"context"
	"strings"
)

// An Owner is the database whose service takes commands from a broker. Of two that
// share the commands each would get a part: one a timer, the other its cancellation.
type Owner struct {
	Database string // id that the database was given when it was made; without spaces
	Broker   string // id that the first owner gave the place where this is kept, and the next ones keep; without spaces
	Name     string // what the database is and where, for people
}

// String returns the owner as a driver keeps it, the ids first.
func (o Owner) String() string { return o.Database + " " + o.Broker + " " + o.Name }

// ParseOwner returns the owner of which s is the String, or what is left of it. It
// is the zero Owner if s is empty.
func ParseOwner(s string) (o Owner) {
	o.Database, s, _ = strings.Cut(s, " ")
	o.Broker, o.Name, _ = strings.Cut(s, " ")
	return o
}

// Owners are what a broker knows of who owns its commands.
type Owners interface {
	// Claim makes owner the owner of the commands that a role takes, if they have none
	// or if takeover, and returns who it is from now on. Two owners are the same if
	// their Database is; then nothing changes, and what was kept is returned.
	//
	// The owner is kept at the broker as long as the position of the role: it outlives
	// connections, and no message in any topic can change it. Of several that claim
	// at once one learns, at the latest when it claims again, that it is the owner,
	// and the others its name. It returns an [ErrUnavailable] while there is no
	// connection, and [errors.ErrUnsupported] if the broker can't keep an owner.
	Claim(ctx context.Context, role string, owner Owner, takeover bool) (Owner, error)
}
