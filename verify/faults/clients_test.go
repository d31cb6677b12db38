package faults_test

import (
	"context"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/verify/crash"
	"github.com/event-service-agent/timer-service/verify/crash/traffic"
)

const (
	rate    = 50 // commands a second
	tenants = 8
)

// observe records what the broker keeps of what the service sends, what it
// says again and what it acks.
func (w *world) observe() {
	w.Helper()
	var err error
	if w.stream, err = w.js.Stream(w.Context(), "svc"); err != nil {
		w.Fatal(err)
	}
	stop, err := crash.Observe(w.Context(), w.conn, w.stream, &w.recorder, time.Now)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(stop)
}

// produce sends commands at a steady rate, each until the broker has it, until
// stopProducing is called.
func (w *world) produce() {
	enough, produced := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(produced)
		crash.Produce(context.WithoutCancel(w.Context()), w.js, traffic.New(w.seed, tenants), rate, &w.recorder, time.Now, enough)
	}()
	w.stopProducing = sync.OnceFunc(func() {
		close(enough)
		<-produced
	})
	w.Cleanup(w.stopProducing)
}
