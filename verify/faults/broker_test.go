package faults_test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/event-service-agent/timer-service/internal/freeport"
	"github.com/event-service-agent/timer-service/internal/proxy"
	"github.com/event-service-agent/timer-service/internal/rabbitd"
	"github.com/event-service-agent/timer-service/verify/crash"
)

// A broker is one of a test's own.
type broker struct {
	t *testing.T
	crash.Server
	kind crash.Kind
	dir  string
	port int
}

// newBroker starts a broker.
func newBroker(t *testing.T, kind crash.Kind) *broker {
	t.Helper()
	port, err := freeport.Find(t.Context())
	check(t, err)
	b := &broker{t: t, kind: kind, dir: t.TempDir(), port: port}
	b.begin()
	t.Cleanup(func() { _ = b.Kill() }) // fails only if it has ended
	return b
}

// begin starts the broker, where it was before.
func (b *broker) begin() {
	b.t.Helper()
	var err error
	if b.Server, err = crash.StartServer(b.t.Context(), b.kind, b.dir, b.port); errors.Is(err, rabbitd.ErrNotInstalled) {
		missing(b.t, "%v", err)
	}
	check(b.t, err)
}

func (b *broker) address() string { return freeport.Address(b.port) }

// away has a broker die, and start again.
func away(b *broker) (harm, repair func(*service)) {
	return func(*service) { check(b.t, b.Kill()) }, func(*service) { b.begin() }
}

// frozen has a broker stop, and go on.
func frozen(b *broker) (harm, repair func(*service)) {
	return func(*service) { check(b.t, syscall.Kill(b.PID(), syscall.SIGSTOP)) }, func(*service) { check(b.t, syscall.Kill(b.PID(), syscall.SIGCONT)) }
}

// refuse has a proxy end all connections, and take no more.
func refuse(p *proxy.Proxy) (harm, repair func(*service)) {
	return func(*service) { p.Refuse(); p.Reset() }, func(*service) { p.Pass() }
}

// silence has a proxy pass nothing on. Connections that lost something stay dead after
// the repair, so that new ones have to be made.
func silence(p *proxy.Proxy) (harm, repair func(*service)) {
	return func(*service) { p.Drop(proxy.ToServer, proxy.ToClient) }, func(*service) { p.Pass() }
}
