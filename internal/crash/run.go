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
	"strconv"
	"time"

	"github.com/event-service-agent/timer-service/internal/crash/history"
	"github.com/event-service-agent/timer-service/internal/crash/traffic"
)

// Options say what to do. Only Now has no default.
type Options struct {
	Now      func() time.Time // the clock of this machine
	Bin      string           // the service; built if empty
	Broker   Kind             // default [NATS]
	Mode     Mode             // default [Kill]
	Kills    int              // how often that is done, in Step at each step; default 10
	Steps    []string         // in Step: where, see [Steps]; default everywhere
	Rate     int              // commands a second; default 200
	Tenants  int              // default 20
	Seed     uint64           // of the commands and of the strikes; the same seed sends the same commands but for their times
	Settle   time.Duration    // how long the service may take to come to rest; default 2m
	Dir      string           // where the directory of the run is made; default the system's for temporary files
	Keep     bool             // keep that directory even if nothing is wrong
	Progress io.Writer        // a line now and then; default none

	stepPatience time.Duration // until a step is reached; default stepPatience
}

func (o Options) withDefaults() Options {
	if o.Broker == "" {
		o.Broker = NATS
	}
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
	if o.stepPatience <= 0 {
		o.stepPatience = stepPatience
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
	port     int    // where the broker listens
	broker   server // nil if the service is its own
	service  service
	wire     wire
	recorder history.Recorder

	life     *life
	upFrom   time.Time // when the last strike that the process survived was over
	lives    int
	struck   int
	deaths   int
	starts   []time.Duration // from start to ready
	steps    []StepReport
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
	if err := opt.Broker.check(opt.Mode); err != nil {
		return report, err
	}
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
		var tags []string
		if r.opt.Mode == Step {
			tags = append(tags, stepTag)
		}
		if r.opt.Bin, err = Build(ctx, r.dir, tags...); err != nil {
			return err
		}
	}
	if r.port, err = freePort(ctx); err != nil {
		return err
	}
	r.service = service{bin: r.opt.Bin, dir: r.dir, log: log, now: r.now}
	if r.opt.Mode == Embedded {
		r.service.env = []string{"TIMER_NATS_PORT=" + strconv.Itoa(r.port)}
	} else {
		r.service.env = []string{"TIMER_BROKER=" + string(r.opt.Broker), "TIMER_BROKER_URL=" + kinds[r.opt.Broker].scheme + address(r.port)}
		if err := r.beginBroker(ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.broker.Stop()) }() // a later one, if it was killed
	}
	if err := r.strikeSteps(ctx, r.opt.chosen(newFile)); err != nil {
		return err
	}
	if err := r.begin(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.life.kill()) }() // one that has ended stays ended
	if err := r.awaitReady(ctx); err != nil {
		return err
	}
	if r.wire, err = kinds[r.opt.Broker].dial(ctx, r); err != nil {
		return err
	}
	defer r.wire.close()
	stop, err := r.wire.observe(ctx, &r.recorder)
	if err != nil {
		return err
	}
	defer stop()
	return r.test(ctx)
}

// test sends commands, strikes, and waits for the end.
func (r *run) test(ctx context.Context) error {
	p := producer{to: r.wire, make: traffic.New(r.opt.Seed, r.opt.Tenants), recorder: &r.recorder, now: r.now, rate: r.opt.Rate, patience: kinds[r.opt.Broker].patience}
	old := r.opt.chosen(oldFile)
	if len(old) > 0 {
		if err := r.makeOld(ctx, &p); err != nil {
			return err
		}
	}
	enough, produced := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(produced)
		p.run(ctx, enough)
	}()
	var err error
	if r.opt.Mode == Step {
		err = r.strikeAll(ctx, append(old, r.opt.chosen(working, ending)...))
	} else {
		err = r.strikes(ctx)
	}
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

// report judges what was recorded.
func (r *run) report(took time.Duration) Report {
	verdict := history.Check(r.recorder.History())
	if r.opt.Mode != Term {
		verdict.Excuse(history.Duplicate, history.Repeated) // at least once: a fault explains them
	}
	for _, b := range r.breaches {
		verdict.Add(b.rule, "%s", b.text)
	}
	slices.Sort(r.starts)
	report := Report{
		Seed: r.opt.Seed, Broker: r.opt.Broker, Mode: r.opt.Mode, Rate: r.opt.Rate, Tenants: r.opt.Tenants,
		Kills: r.struck, Lives: r.lives, Ready: len(r.starts),
		Steps: r.steps, Seconds: took.Seconds(), Dir: r.dir, Verdict: verdict,
	}
	if len(r.starts) > 0 {
		report.StartMS = float64(r.starts[len(r.starts)/2].Microseconds()) / 1000
	}
	return report
}
