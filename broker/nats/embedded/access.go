package embedded

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats-server/v2/server"
)

// Access has the rights of clients at a [Server]. The owner may do everything. All
// other clients are guests: they publish commands and read events, directly or with
// consumers of their own. They may do nothing more.
//
// Guests have an account of their own, which imports the subjects that they may use. They
// are not in the account of the stream. So the server sends its answers to guests only,
// whatever subject they name: an answer can't become an event, or an ack of the service.
type Access struct {
	Password string   // password of the user [Owner]; required
	Token    string   // token that guests must show; empty if they need none
	Stream   string   // stream that guests may make consumers of
	Commands string   // subject that guests may publish to; it may have wildcards
	Events   string   // subject that guests may read; it may have wildcards
	Receipts string   // subject that guests may read, too; empty if there are no receipts
	Reserved []string // consumers that guests may not use
	Guests   int      // most guests at once, each of which takes a handle of the process; 0: any number
}

// Owner is the name of the user that may do everything.
const Owner = "timer-service"

const (
	relayUser     = "relay" // has the password of the owner, and is in the account of guests
	guestsAccount = "guests"
	relayedNext   = "relay.next." // subject on which the relay asks for messages of a consumer
)

// inboxes are the subjects on which guests receive answers: the inboxes of common clients,
// and of timer-service as a client.
var inboxes = []string{"_INBOX.", "_INBOX_timer-client."}

// A door lets clients in, once the server has started. Each start has its own, since accounts
// do not survive a restart.
type door struct {
	access *Access
	ready  chan struct{}   // closed when the server has started, or can't
	guests *server.Account // nil if the server can't start
	server *server.Server
}

// open makes the account of guests.
func (d *door) open(n *server.Server) error {
	owners := n.GlobalAccount()
	guests, _ := n.LookupOrRegisterAccount(guestsAccount)
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
	d.guests, d.server = guests, n
	return nil
}

// Check lets a client in, with its permissions.
func (d *door) Check(c server.ClientAuthentication) bool {
	<-d.ready
	if c.Kind() != server.CLIENT || d.guests == nil {
		return false
	}
	switch given := c.GetOpts(); {
	case given.Username == Owner && equal(given.Password, d.access.Password):
	case given.Username == relayUser && equal(given.Password, d.access.Password):
		c.RegisterUser(&server.User{Account: d.guests})
	case d.access.Guests > 0 && d.server.NumClients() > d.access.Guests:
		return false
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

// read returns the subjects that guests read.
func (a *Access) read() []string {
	if a.Receipts == "" {
		return []string{a.Events}
	}
	return []string{a.Events, a.Receipts}
}

// imported returns the subjects that guests publish to, and that have one answer.
func (a *Access) imported() []string {
	return []string{
		a.Commands,
		"$JS.API.INFO", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.INFO." + a.Stream,
		"$JS.API.CONSUMER.INFO." + a.Stream + ".*",
		"$JS.ACK." + a.Stream + ".>",
	}
}

// next returns the subject of requests for messages of a consumer, without its name.
func (a *Access) next() string { return "$JS.API.CONSUMER.MSG.NEXT." + a.Stream + "." }

// relayed returns the subjects on which a relay answers guests.
func (a *Access) relayed() []string {
	return []string{
		"$JS.API.CONSUMER.CREATE." + a.Stream,
		"$JS.API.CONSUMER.CREATE." + a.Stream + ".>",
		"$JS.API.CONSUMER.DURABLE.CREATE." + a.Stream + ".*",
		a.next() + "*",
	}
}

// permissions returns the permissions of guests, who may not publish events to each other
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
