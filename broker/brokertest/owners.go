package brokertest

import (
	"fmt"
	"sync"

	"github.com/google/uuid"

	"github.com/event-service-agent/timer-service/broker"
)

// ownerRole is the role whose commands are owned.
const ownerRole = "timer-service"

// database returns a new owner.
func database(name string) broker.Owner {
	return broker.Owner{Database: uuid.NewString(), Broker: uuid.NewString()[:8], Name: "sqlite /var/lib/" + name + ".db on host-a"}
}

// claim claims the commands, which must be answered.
func (n *node) claim(w *world, role string, owner broker.Owner, takeover bool) broker.Owner {
	w.Helper()
	got, err := n.Claim(w.Context(), role, owner, takeover)
	if err != nil {
		w.Fatalf("claim for %s: %v", owner.Name, err)
	}
	return got
}

// owns fails the test unless got is want.
func owns(w *world, got, want broker.Owner) {
	w.Helper()
	if got != want {
		w.Errorf("the owner is %v, want %v", got, want)
	}
}

func claims(w *world) {
	first, second := database("first"), database("second")
	other := w.start()
	owns(w, w.claim(w, ownerRole, first, false), first)
	owns(w, other.claim(w, ownerRole, second, false), first)
	owns(w, w.claim(w, ownerRole, first, false), first)

	instance := broker.Owner{Database: first.Database, Broker: "another", Name: "sqlite /mnt/first.db on host-b"}
	owns(w, other.claim(w, ownerRole, instance, false), first)
	owns(w, other.claim(w, ownerRole, instance, true), first)
	owns(w, other.claim(w, "auditor", second, false), second)
	owns(w, w.claim(w, ownerRole, first, false), first)
}

func claimsAtOnce(w *world) {
	const n = 8
	var (
		owners [n]broker.Owner
		nodes  [n]*node
		all    sync.WaitGroup
	)
	for i := range n {
		owners[i], nodes[i] = database(fmt.Sprint(i)), w.start()
	}
	for i := range n {
		all.Go(func() {
			if _, err := nodes[i].Claim(w.Context(), ownerRole, owners[i], false); err != nil {
				w.Errorf("claim for %s: %v", owners[i].Name, err)
			}
		})
	}
	all.Wait()
	winner := nodes[0].claim(w, ownerRole, owners[0], false)
	won := 0
	for i := range n {
		got := nodes[i].claim(w, ownerRole, owners[i], false)
		owns(w, got, winner)
		if got == owners[i] {
			won++
		}
	}
	if won != 1 {
		w.Errorf("%d of %d own the commands, want one", won, n)
	}
}

func takesOver(w *world) {
	first, second := database("first"), database("second")
	other := w.start()
	owns(w, w.claim(w, ownerRole, first, true), first)
	second.Broker = "unknown" // it learns the one of the broker
	want := second
	want.Broker = first.Broker
	owns(w, other.claim(w, ownerRole, second, true), want)
	owns(w, w.claim(w, ownerRole, first, false), want)
	owns(w, other.claim(w, ownerRole, second, false), want)
	owns(w, w.claim(w, ownerRole, first, true), first)
}

func ownerStays(w *world) {
	first, second := database("first"), database("second")
	n := w.start()
	owns(w, n.claim(w, ownerRole, first, false), first)
	n.stop()
	if w.server.Stop != nil {
		w.server.Stop()
		w.server.Start()
	}
	owns(w, w.start().claim(w, ownerRole, second, false), first)
}
