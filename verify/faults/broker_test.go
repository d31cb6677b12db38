package faults_test

import (
	"syscall"

	"github.com/event-service-agent/timer-service/internal/proxy"
	"github.com/event-service-agent/timer-service/verify/internal/harness"
)

// away has a broker die, and start again.
func away(b *harness.Broker) (harm, repair func(*service)) {
	return func(s *service) { harness.Must(s, b.Kill()) }, func(s *service) { b.Begin(s) }
}

// frozen has a broker stop, and go on.
func frozen(b *harness.Broker) (harm, repair func(*service)) {
	signal := func(sig syscall.Signal) func(*service) {
		return func(s *service) { harness.Must(s, syscall.Kill(b.PID(), sig)) }
	}
	return signal(syscall.SIGSTOP), signal(syscall.SIGCONT)
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
