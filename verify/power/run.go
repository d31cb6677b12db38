//go:build linux

package power

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/internal/freeport"
	"github.com/event-service-agent/timer-service/verify/crash"
	"github.com/event-service-agent/timer-service/verify/crash/history"
	"github.com/event-service-agent/timer-service/verify/crash/traffic"
)

// A Layout says what is on the disk that loses its power.
type Layout string

// Layouts.
const (
	Database Layout = "database" // the database; the broker outlives the cuts
	Embedded Layout = "embedded" // the database, and the streams of the broker within the service
)

// Layouts are all layouts.
var Layouts = []Layout{Database, Embedded}

// streamName is the stream that the service creates.
const streamName = "svc"

// How long the service works between cuts, at least and at most.
var workTime = span{50 * time.Millisecond, 1500 * time.Millisecond}

const (
	readyTimeout = 60 * time.Second // for a start
	endTimeout   = 60 * time.Second // for a stop
)

// Options say what to do. Only Now has no default.
type Options struct {
	Now      func() time.Time // the clock of this machine
	Bin      string           // the service; built if empty
	Layout   Layout           // default [Database]
	Cuts     int              // how often the power is cut; default 10
	Rate     int              // commands a second; default 200
	Tenants  int              // default 20
	Seed     uint64           // of the commands and of the cuts
	Settle   time.Duration    // how long the service may take to come to rest; default 2m
	Dir      string           // where the directory of the run is made; default the system's for temporary files
	Keep     bool             // keep that directory even if nothing is wrong
	Progress io.Writer        // a line now and then; default none
}

func (o Options) withDefaults() Options {
	if o.Layout == "" {
		o.Layout = Database
	}
	if o.Cuts <= 0 {
		o.Cuts = 10
	}
	if o.Rate <= 0 {
		o.Rate = 200
	}
	if o.Tenants <= 0 {
		o.Tenants = 20
	}
	if o.Settle <= 0 {
		o.Settle = 2 * time.Minute
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	return o
}

// A run is one test in progress.
type run struct {
	opt      Options
	now      func() time.Time
	rand     *rand.Rand // of the cuts
	dir      string
	disk     *disk
	log      io.Writer // of the service
	env      []string  // of the service
	port     int       // of the broker
	nc       *nats.Conn
	js       jetstream.JetStream
	stream   jetstream.Stream
	recorder history.Recorder

	life     *crash.Process
	lives    int
	cuts     int
	begun    time.Time       // when the life began
	starts   []time.Duration // from the start of a process to ready
	cutTook  time.Duration   // the longest, from the first stop to the disk mounted again
	breaches []breach
	stored   map[uint64]history.Message // what the stream holds in the end; nil before
}

// A breach is a violation that is seen while it happens, not in the history.
type breach struct {
	rule history.Rule
	text string
}

func (r *run) breach(rule history.Rule, format string, args ...any) {
	r.breaches = append(r.breaches, breach{rule, fmt.Sprintf(format, args...)})
}

// Run does what the options say and reports what it observed. It returns an error if
// it could not; that the service broke its promises is no error, but in the
// report. The report is of what happened so far even if there is an error.
func Run(ctx context.Context, opt Options) (report Report, err error) {
	opt = opt.withDefaults()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dir, err := os.MkdirTemp(opt.Dir, "timer-power-")
	if err != nil {
		return report, fmt.Errorf("make the directory of the run: %w", err)
	}
	r := &run{opt: opt, now: opt.Now, dir: dir, rand: rand.New(rand.NewPCG(opt.Seed, 0x27d4eb2f165667c5))}
	began := r.now()
	err = r.do(ctx)
	report = r.report(r.now().Sub(began))
	if err != nil {
		report.Error = err.Error()
	}
	return report, errors.Join(err, r.cleanUp(&report))
}

// do runs the test from the making of the disk to the last stop.
func (r *run) do(ctx context.Context) (err error) {
	log, err := os.Create(filepath.Join(r.dir, "service.log"))
	if err != nil {
		return fmt.Errorf("make the log of the service: %w", err)
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	r.log = log
	if r.opt.Bin == "" {
		if r.opt.Bin, err = crash.Build(ctx, r.dir); err != nil {
			return err
		}
	}
	if r.disk, err = newDisk(ctx, r.dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.disk.close()) }()

	stop, err := r.layOut(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if err := r.begin(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.life.Kill()) }() // a later one; one that has ended stays ended
	if err := r.firstCut(ctx); err != nil {
		return err
	}
	if err := r.connect(ctx); err != nil {
		return err
	}
	defer r.nc.Close()
	stopObserving, err := crash.Observe(ctx, r.nc, r.stream, &r.recorder, r.now)
	if err != nil {
		return err
	}
	defer stopObserving()
	return r.test(ctx)
}

// layOut starts what outlives the cuts, and says where everything is. What it
// returns ends it.
func (r *run) layOut(ctx context.Context) (stop func() error, err error) {
	r.env = []string{"TIMER_UNKNOWN_TYPES=ignore", "TIMER_DB_PATH=" + filepath.Join(r.disk.dir, "timers.db"), "TIMER_BROKER=nats", "TIMER_DURABILITY=strict"}
	if r.port, err = freeport.Find(ctx); err != nil {
		return nil, err
	}
	switch r.opt.Layout {
	case Database:
		r.env = append(r.env, fmt.Sprintf("TIMER_BROKER_URL=nats://127.0.0.1:%d", r.port))
		b, err := crash.StartBroker(ctx, crash.BrokerOptions{Dir: r.dir, Port: r.port})
		if err != nil {
			return nil, err
		}
		return b.Stop, nil
	case Embedded:
		r.env = append(r.env, fmt.Sprintf("TIMER_NATS_PORT=%d", r.port))
		return func() error { return nil }, nil
	}
	return nil, fmt.Errorf("layout %q is none of %q", r.opt.Layout, Layouts)
}

// connect connects the test with the broker once the service is ready, for as
// long as it takes: in one layout the broker goes with every cut.
func (r *run) connect(ctx context.Context) (err error) {
	if err := r.awaitReady(ctx); err != nil {
		return err
	}
	r.nc, err = crash.Connect(r.port, "timer-power", filepath.Join(r.disk.dir, "timers.db"))
	if err != nil {
		return fmt.Errorf("connect with the broker: %w", err)
	}
	if r.js, err = jetstream.New(r.nc); err != nil {
		return err
	}
	if r.stream, err = r.js.Stream(ctx, streamName); err != nil {
		return fmt.Errorf("find the stream of the service: %w", err)
	}
	return nil
}

// test sends commands, cuts the power, and waits for the end.
func (r *run) test(ctx context.Context) error {
	enough, produced := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(produced)
		crash.Produce(ctx, r.js, traffic.New(r.opt.Seed, r.opt.Tenants), r.opt.Rate, &r.recorder, r.now, enough)
	}()
	err := r.cutAll(ctx)
	close(enough)
	<-produced
	if err != nil {
		return err
	}
	if err := r.settle(ctx); err != nil {
		return err
	}
	if r.stored, err = r.readStream(ctx); err != nil {
		return err
	}
	r.over()
	if err := r.life.Stop(endTimeout); err != nil {
		r.breach(history.Unclean, "life %d: %v", r.lives, err)
	}
	return nil
}
