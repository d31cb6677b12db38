package embedded

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/nats-io/nats-server/v2/server"
)

// Access is who may do what at a [Server]. Its owner may do everything. All others
// are guests: they publish commands, read events, directly or by consumers of
// their own, and nothing else.
//
// Guests are in an account of the server that imports what they may do, and not
// in that of the stream. So an answer to them goes nowhere else, whatever
// subject they name for it: it can't become an event, or an ack of the service.
type Access struct {
	Password string   // of the user [Owner]; required
	Token    string   // what guests must show; empty: nothing
	Stream   string   // what guests may make consumers of
	Commands string   // subject that guests may publish to; it may have wildcards
	Events   string   // subject that guests may read; it may have wildcards
	Receipts string   // as Events; empty: there are none
	Reserved []string // consumers that guests may not use
}

// Owner is the name of the user who may do everything.
const Owner = "timer-service"

const (
	relayUser     = "relay" // with the password of the owner; in the account of guests
	guestsAccount = "guests"
	relayedNext   = "relay.next." // where the relay asks for messages of a consumer
)

// inboxes are where guests receive answers: those of common clients, and of
// timer-service as one.
var inboxes = []string{"_INBOX.", "_INBOX_timer-client."}

// A door lets clients in, once it is open. There is one for each start of the
// server, whose accounts do not survive it.
type door struct {
	access *Access
	ready  chan struct{} // closed when it is open, or never will be
	once   sync.Once
	guests *server.Account // nil if it never was opened
}

func newDoor(access *Access) *door { return &door{access: access, ready: make(chan struct{})} }

// open makes the account of guests.
func (d *door) open(n *server.Server) error {
	owners, guests := n.GlobalAccount(), (*server.Account)(nil)
	guests, _ = n.LookupOrRegisterAccount(guestsAccount)
	var err error
	for _, subject := range d.access.read() {
		err = errors.Join(err, owners.AddStreamExport(subject, nil), guests.AddStreamImport(owners, subject, ""))
	}
	for _, subject := range d.access.imported() {
		err = errors.Join(err, owners.AddServiceExport(subject, nil), guests.AddServiceImport(owners, subject, subject))
	}
	next := d.access.next() + "*"
	err = errors.Join(err, owners.AddServiceExportWithResponse(next, server.Streamed, nil), guests.AddServiceImport(owners, relayedNext+"*", next))
	if err != nil {
		return fmt.Errorf("permissions of the embedded server: %w", err)
	}
	d.once.Do(func() {
		d.guests = guests
		close(d.ready)
	})
	return nil
}

// shut refuses those who wait, if the door was never opened.
func (d *door) shut() { d.once.Do(func() { close(d.ready) }) }

// Check lets a client in, with its permissions. It waits until the door is open.
func (d *door) Check(c server.ClientAuthentication) bool {
	<-d.ready
	if c.Kind() != server.CLIENT || d.guests == nil {
		return false
	}
	switch given := c.GetOpts(); {
	case given.Username == Owner && equal(given.Password, d.access.Password):
	case given.Username == relayUser && equal(given.Password, d.access.Password):
		c.RegisterUser(&server.User{Account: d.guests})
	case given.Username == "" && given.Password == "" && equal(given.Token, d.access.Token):
		c.RegisterUser(&server.User{Account: d.guests, Permissions: d.access.permissions()})
	default:
		return false
	}
	return true
}

func equal(given, want string) bool {
	return subtle.ConstantTimeCompare([]byte(given), []byte(want)) == 1
}

// read are the subjects that guests read.
func (a *Access) read() []string {
	if a.Receipts == "" {
		return []string{a.Events}
	}
	return []string{a.Events, a.Receipts}
}

// imported are the subjects that guests publish to, and that have one answer.
func (a *Access) imported() []string {
	return []string{
		a.Commands,
		"$JS.API.INFO", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.INFO." + a.Stream,
		"$JS.API.CONSUMER.INFO." + a.Stream + ".*",
		"$JS.ACK." + a.Stream + ".>",
	}
}

// next is where one asks for messages of a consumer, without its name.
func (a *Access) next() string { return "$JS.API.CONSUMER.MSG.NEXT." + a.Stream + "." }

// relayed are the subjects on which a relay answers guests.
func (a *Access) relayed() []string {
	return []string{
		"$JS.API.CONSUMER.CREATE." + a.Stream,
		"$JS.API.CONSUMER.CREATE." + a.Stream + ".>",
		"$JS.API.CONSUMER.DURABLE.CREATE." + a.Stream + ".*",
		a.next() + "*",
	}
}

// permissions are those of guests. They may not publish events to each other
// either.
func (a *Access) permissions() *server.Permissions {
	var deny []string
	for _, name := range a.Reserved {
		deny = append(deny,
			"$JS.API.CONSUMER.INFO."+a.Stream+"."+name, a.next()+name, "$JS.ACK."+a.Stream+"."+name+".>")
	}
	read := a.read()
	for _, prefix := range inboxes {
		read = append(read, prefix+">")
	}
	return &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: slices.Concat(a.imported(), a.relayed()), Deny: deny},
		Subscribe: &server.SubjectPermission{Allow: read},
	}
}
