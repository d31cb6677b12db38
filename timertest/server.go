package timertest

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats-server/v2/server/ats"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/gochannel"
	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/broker/nats/embedded"
)

// A server is a broker that outlives the processes that use it.
type server interface {
	// connect returns the broker as one process has it, and a function that
	// disconnects it.
	connect() (b broker.Broker, disconnect func())
	stop()
}

// memory is a broker in memory.
type memory struct {
	broker *gochannel.Broker
	role   message.Subscriber // of the service: keeps commands while that does not run
	end    func()
}

// serveMemory starts a broker that keeps the commands for a role, from now on.
func serveMemory(_ string, opt options) (server, error) {
	routing := gochannel.DefaultRouting()
	if opt.receipts {
		routing.Receipts = gochannel.DefaultReceipts
	}
	b := gochannel.New(gochannel.Options{Routing: routing}, opt.log)
	m := memory{broker: b, role: b.Subscriber(opt.app.Role), end: runs(b)}
	return m, m.role.(message.SubscribeInitializer).SubscribeInitialize(b.Routing().Subscription())
}

func (m memory) connect() (b broker.Broker, disconnect func()) { return m.broker, func() {} }

func (m memory) stop() {
	_ = m.role.Close()
	m.end()
}

// runs runs a broker until end is called.
func runs(b broker.Broker) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = b.Run(ctx) // whatever it returns, it is not ready
	}()
	return func() {
		cancel()
		<-ended
	}
}

// A natsServer is a NATS server in this process.
type natsServer struct {
	server  *embedded.Server
	routing broker.Routing
	log     *slog.Logger
}

// serveNATS starts a server in a folder.
func serveNATS(dir string, opt options) (server, error) {
	accessTime.use()
	s, err := embedded.Start(embedded.Options{StoreDir: dir, DontListen: true}, opt.log)
	if err != nil {
		accessTime.leave()
		return nil, fmt.Errorf("start the NATS server: %w", err)
	}
	routing := nats.DefaultRouting()
	if opt.receipts {
		routing.Receipts = nats.DefaultReceipts
	}
	return natsServer{s, routing, opt.log}, nil
}

func (s natsServer) connect() (b broker.Broker, disconnect func()) {
	b = nats.New(nats.Options{Server: s.server, Routing: s.routing}, s.log)
	return b, runs(b)
}

// stop also empties the pool of timers of the client library (timer.go, nats.go
// v1.55.0), which takes two collections of garbage: a timer of a bubble is fatal
// in another one.
func (s natsServer) stop() {
	s.server.Shutdown()
	accessTime.leave()
	runtime.GC()
	runtime.GC()
}

// A clock is that of the NATS server which it reads access times from (package ats,
// nats-server v2.15.2). There is one for all servers of the process, with a
// goroutine of its own, which the first one starts. In a bubble that goroutine would
// belong to it: the bubble would not end, or the next one would read a clock that
// has stopped.
type clock struct {
	mu    sync.Mutex
	users int
	begun chan struct{} // not of a bubble
}

var accessTime = clock{begun: make(chan struct{})}

// use begins the clock, unless it runs. The runtime calls cleanups outside of
// bubbles (package testing/synctest).
func (c *clock) use() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users++; c.users > 1 {
		return
	}
	runtime.AddCleanup(new(clock), func(begun chan struct{}) {
		ats.Register()
		begun <- struct{}{}
	}, c.begun)
	runtime.GC()
	<-c.begun
}

// leave ends the clock when it has no users.
func (c *clock) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users--; c.users == 0 {
		ats.Unregister()
	}
}
