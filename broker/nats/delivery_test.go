package nats

import (
	"testing"

	natsgo "github.com/nats-io/nats.go"
)

// TestAckSubjects reads what servers say of a message: the older form, and the
// newer one with a domain and an account, see the NATS ADR-15.
func TestAckSubjects(t *testing.T) {
	t.Parallel()
	for reply, good := range map[string]bool{
		"$JS.ACK.svc.reader.3.22.10.1700000000000000000.5":             true,
		"$JS.ACK.hub.ABC.svc.reader.3.22.10.1700000000000000000.5":     true,
		"$JS.ACK._.ABC.svc.reader.3.22.10.1700000000000000000.5.RaNdM": true,
		"$JS.ACK.svc.reader.3.22":                                      false,
		"$JS.ACK.":                                                     false,
		"":                                                             false,
	} {
		in := &natsgo.Msg{Subject: "a", Reply: reply, Sub: new(natsgo.Subscription)}
		d, err := new(subscription).newDelivery(in)
		if good && err != nil || !good && err == nil {
			t.Errorf("%s: %v", reply, err)
		}
		if good && err == nil && (d.number != 3 || d.sequence != 22 || d.stored != 1_700_000_000_000_000_000) {
			t.Errorf("%s: number %d, sequence %d, stored %d", reply, d.number, d.sequence, d.stored)
		}
		if good && !fromStream(in) {
			t.Errorf("%s is taken for what the server has to say", reply)
		}
	}
}
