package timertest

import (
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/store/sqlite"
)

// A Service is the timer service in a bubble of testing/synctest, and the broker
// that it uses. Make it with [Start]. A method that can't do its work fails the
// test. Crash, Restart, Schedule, Cancel, Due, Timers and AwaitIdle are for the
// goroutine of the test; all others are safe for concurrent use.
type Service struct {
	t      testing.TB
	opt    options
	dir    string // of the test
	server server
	outage *outage
	user   *link          // the broker of [Service.Broker]
	events *recorder      // all that were published
	reader *sqlite.Reader // of the database, whether the service runs or not; nil before it is used
	open   unackedCommands

	mu      sync.Mutex
	process *process // nil after a crash
	ended   []*process
}

// year2000 is when bubbles begin. Nothing may be due before it, so there must be
// some time between it and a test.
var year2000 = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

const (
	past        = 48 * time.Hour // of a bubble, at least, when a test begins
	startLimit  = time.Minute    // of fake time
	defaultRole = "timer-service"
)

// Start starts the service in the bubble of t, and returns when commands are taken,
// at a full second: 2000-01-03T00:00:00Z in a bubble that has begun there. With the
// end of the test the service stops, and all that belongs to it is closed.
//
// It is the real service, on a SQLite file in a temporary folder and, unless an
// option names another one, a broker in memory.
func Start(t testing.TB, options ...Option) *Service {
	t.Helper()
	if !inBubble() {
		t.Fatal("timertest.Start is for bubbles: call it inside of synctest.Test, with the t of that")
	}
	time.Sleep(time.Until(year2000.Add(past - time.Minute)))
	s := &Service{t: t, opt: newOptions(t, options), dir: t.TempDir(), outage: newOutage(), events: &recorder{more: make(chan struct{})}}
	var err error
	if s.server, err = s.opt.serve(filepath.Join(s.dir, "broker"), s.opt); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.server.stop)
	b, stop := s.server.connect()
	t.Cleanup(stop)
	s.user = newLink(b, s.outage, new(unackedCommands))
	t.Cleanup(s.user.close)
	for deadline := time.Now().Add(startLimit); b.Ready(t.Context()) != nil; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the broker does not start: ", b.Ready(t.Context()))
		}
	}
	t.Cleanup(s.end)
	if !s.opt.stopped {
		s.start()
	}
	time.Sleep(max(0, time.Until(year2000.Add(past))))
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second)) % time.Second)
	return s
}

// inBubble reports whether the caller is in a bubble.
func inBubble() (is bool) {
	defer func() { is = recover() == nil }()
	synctest.Wait()
	return true
}

// path is that of the database.
func (s *Service) path() string { return filepath.Join(s.dir, "timers.db") }

// start starts a process, and returns when it takes commands and fires timers.
func (s *Service) start() {
	s.t.Helper()
	p, err := s.launch()
	if err != nil {
		s.t.Fatal("start the timer service: ", err)
	}
	s.mu.Lock()
	s.process = p
	s.ended = append(s.ended, p)
	s.mu.Unlock()
	if wrong := p.starts(startLimit, s.outage); wrong != nil {
		s.t.Fatal("the timer service does not start: ", wrong)
	}
}

// Crash ends the service as a kill of its process would: open transactions are
// lost, nothing is drained, and messages that the service has not acked come again. The
// database and the broker stay. No time passes, unless a transaction of
// [app.Timers.Tx] or OnDueTx is open: it is rolled back, and Crash returns when its
// function has. The context of a handler ends [app.Options].DrainTimeout after the
// crash.
//
// Code in the process of the test can't be killed: a handler of [OnDue] that
// is at work goes on, but its result is not noticed.
func (s *Service) Crash() {
	s.t.Helper()
	p := s.running()
	if p == nil {
		s.t.Fatal("the timer service does not run, so it can't crash")
	}
	s.mu.Lock()
	s.process = nil
	s.mu.Unlock()
	if err := p.kill(); err != nil {
		s.t.Error("crash: ", err)
	}
}

// Restart starts the service on the database that a [Service.Crash] left. A service
// that runs is stopped first, in order, as by a deployment.
func (s *Service) Restart() {
	s.t.Helper()
	if p := s.running(); p != nil {
		if err := p.stop(); err != nil {
			s.t.Error("stop the timer service: ", err)
		}
	}
	s.start()
}

// end stops all that ran.
func (s *Service) end() {
	s.outage.end()
	for _, p := range s.ended {
		if err := p.stop(); err != nil {
			s.t.Error("stop the timer service: ", err)
		}
	}
}

// running returns the process that runs, or nil.
func (s *Service) running() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

// BrokerDown has the broker refuse messages and deliver nothing, to the
// service and by [Service.Broker], for d of the bubble's time from now on. It
// returns at once. An ack meanwhile is lost: its message comes again.
func (s *Service) BrokerDown(d time.Duration) { s.outage.begin(d) }

// Broker returns the broker of the service, for publishers and subscribers of the
// code under test. It outlives crashes of the service.
func (s *Service) Broker() broker.Broker { return s.user }

// App returns the app that runs, or nil after a crash.
func (s *Service) App() *app.App {
	if p := s.running(); p != nil {
		return p.app
	}
	return nil
}

// Store returns the store of the service that runs, or nil after a crash, without the
// wrapper of the option [Store].
func (s *Service) Store() *sqlite.Store {
	if p := s.running(); p != nil {
		return p.store
	}
	return nil
}
