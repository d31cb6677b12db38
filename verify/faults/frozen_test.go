package faults_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/verify/crash/history"
)

// TestFrozenInstanceDelaysNobody has two instances share a database, of which one
// is stopped for a minute. What it had comes to the other one within the ack wait,
// and so does what the broker sends it until its requests expire.
func TestFrozenInstanceDelaysNobody(t *testing.T) {
	t.Parallel()
	const frozen, atMost = time.Minute, 10 * time.Second
	w, _ := onPostgres(t)
	began := time.Now()
	other := start(t, "service", w.environ...)
	other.says("ready  ", began, time.Minute)
	w.goesOn(100)
	other.signal(syscall.SIGSTOP)
	stopped := time.Now()
	awaitTime(t, stopped, frozen)
	other.signal(syscall.SIGCONT)
	w.goesOn(100)
	w.settle(2 * time.Minute)
	if late := history.Check(w.recorder.History()).Overall; late.MaxMS > float64(atMost.Milliseconds()) {
		t.Errorf("timers were late up to %v ms, want at most %v", late.MaxMS, atMost)
	}
	other.stop()
	w.service.stop()
}
