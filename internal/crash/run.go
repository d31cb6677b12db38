package crash

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/internal/crash/history"
	"github.com/event-service-agent/timer-service/internal/crash/traffic"
)

// streamName is the stream that the service creates.
const streamName = "svc"

// Options say what to do. Only Now has no default.
type Options struct {
	Now      func() time.Time // the clock of this machine
	Bin      string           // the service; built if empty
	Mode     Mode             // default [Kill]
	Kills    int              // how often that is done; default 10
	Rate     int              // commands a second; default 200
	Tenants  int              // default 20
	Seed     uint64           // of the commands and of the strikes; the same seed sends the same commands but for their times
	Settle   time.Duration    // how long the service may take to come to rest; default 2m
	Dir      string           // where the directory of the run is made; default the system's for temporary files
	Keep     bool             // keep that directory even if nothing is wrong
	Progress io.Writer        // a line now and then; default none
}

func (o Options) withDefaults() Options {
	if o.Mode == "" {
		o.Mode = Kill
	}
	if o.Kills <= 0 {
		o.Kills = 10
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
	rand     *rand.Rand // of the strikes
	dir      string
	broker   *broker
	service  service
	nc       *nats.Conn
	js       jetstream.JetStream
	stream   jetstream.Stream
	recorder history.Recorder

	life     *life
	upFrom   time.Time // when the last strike that the process survived was over
	lives    int
	struck   int
	deaths   int
	starts   []time.Duration // from start to ready
	breaches []breach
}

// A breach is a violation that is seen while it happens, not in the history.
type breach struct {
	rule history.Rule
	text string
}

func (r *run) breach(rule history.Rule, format string, args ...any) {
	r.breaches = append(r.breaches, breach{rule, fmt.Sprintf(format, args...)})
}

// Run does what the options say and reports what it saw. It returns an error if
// it could not; that the service broke its promises is no error, but in the
// report. The report is of what happened so far even if there is an error.
func Run(ctx context.Context, opt Options) (report Report, err error) {
	opt = opt.withDefaults()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dir, err := os.MkdirTemp(opt.Dir, "timer-crash-")
	if err != nil {
		return report, fmt.Errorf("make the directory of the run: %w", err)
	}
	r := &run{opt: opt, now: opt.Now, dir: dir, rand: rand.New(rand.NewPCG(opt.Seed, 0xc2b2ae3d27d4eb4f))}
	began := r.now()
	err = r.do(ctx)
	report = r.report(r.now().Sub(began))
	if err != nil {
		report.Error = err.Error()
	}
	return report, errors.Join(err, r.cleanUp(&report, err))
}

// do runs the test from the first start to the last stop.
func (r *run) do(ctx context.Context) (err error) {
	log, err := os.Create(filepath.Join(r.dir, "service.log"))
	if err != nil {
		return fmt.Errorf("make the log of the service: %w", err)
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	if r.opt.Bin == "" {
		if r.opt.Bin, err = Build(ctx, r.dir); err != nil {
			return err
		}
	}
	if r.broker, err = startBroker(ctx, r.dir, 0); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.broker.stop()) }() // a later one, if it was killed

	r.service = service{bin: r.opt.Bin, dir: r.dir, url: r.broker.url, log: log, now: r.now}
	if err := r.connect(); err != nil {
		return err
	}
	defer r.nc.Close()
	if err := r.begin(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.life.kill()) }() // one that has ended stays ended
	if err := r.awaitReady(ctx); err != nil {
		return err
	}
	if r.stream, err = r.js.Stream(ctx, streamName); err != nil {
		return fmt.Errorf("find the stream of the service: %w", err)
	}
	observer, err := observe(ctx, r.nc, r.stream, &r.recorder, r.now)
	if err != nil {
		return err
	}
	defer observer.stop()
	return r.test(ctx)
}

// test sends commands, strikes, and waits for the end.
func (r *run) test(ctx context.Context) error {
	p := producer{js: r.js, make: traffic.New(r.opt.Seed, r.opt.Tenants), recorder: &r.recorder, now: r.now, rate: r.opt.Rate}
	enough, produced := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(produced)
		p.run(ctx, enough)
	}()
	err := r.strikes(ctx)
	close(enough)
	<-produced
	if err != nil {
		return err
	}
	if err := r.settle(ctx); err != nil {
		return err
	}
	return r.end(ctx)
}

// connect connects the test with the broker, for as long as it takes.
func (r *run) connect() (err error) {
	r.nc, err = nats.Connect(r.broker.url, nats.Name("timer-crash"), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
	if err != nil {
		return fmt.Errorf("connect with the broker: %w", err)
	}
	r.js, err = jetstream.New(r.nc)
	return err
}

// report judges what was recorded.
func (r *run) report(took time.Duration) Report {
	verdict := history.Check(r.recorder.History())
	if r.opt.Mode != Term {
		verdict.Excuse(history.Duplicate) // at least once: a fault explains them
	}
	for _, b := range r.breaches {
		verdict.Add(b.rule, "%s", b.text)
	}
	slices.Sort(r.starts)
	report := Report{
		Seed: r.opt.Seed, Mode: r.opt.Mode, Rate: r.opt.Rate, Tenants: r.opt.Tenants,
		Kills: r.struck, Lives: r.lives, Ready: len(r.starts),
		Seconds: took.Seconds(), Dir: r.dir, Verdict: verdict,
	}
	if len(r.starts) > 0 {
		report.StartMS = float64(r.starts[len(r.starts)/2].Microseconds()) / 1000
	}
	return report
}
