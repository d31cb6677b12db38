package crash

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/internal/freeport"
	"github.com/event-service-agent/timer-service/internal/natsd"
	"github.com/event-service-agent/timer-service/verify/crash/history"
	"github.com/event-service-agent/timer-service/verify/crash/traffic"
)

// A run is one test in progress.
type run struct {
	opt        Options
	rand       *rand.Rand // of the faults
	dir        string
	port       int            // where the broker listens
	broker     Server         // nil if the service is its own
	cluster    *natsd.Cluster // the broker, if it is three servers of NATS; otherwise nil
	database   database
	file       *sqliteFile         // the database, if it is one
	replicated *replicatedDatabase // the database, if it has a standby
	wire       wire
	line       line   // to the wire
	hangUp     func() // ends what wire observes, and closes it
	recorder   history.Recorder

	instances []*instance
	oldBin    string    // in Upgrade: the older version
	newcomer  *instance // in Upgrade, of several: the first of the new version; nil once it has begun

	producer *producer
	stopLoad func() // ends the production of commands, if it is under way

	lives    int
	faults   int
	deaths   int
	refusals int
	ended    int             // processes that ended by themselves when they were allowed to
	mayEnd   bool            // a failover has begun: an instance may end by itself, to recover at its next start
	lost     bool            // after a quiet: timers are missing though the service had its time
	starts   []time.Duration // from start to ready
	steps    []StepReport
	breaches []breach
	stored   map[uint64]history.Message // messages in the stream of NATS at the end; nil if it was not read
}

// A breach is a violation that is seen while it happens, not in the history.
type breach struct {
	rule history.Rule
	text string
}

func (r *run) breach(rule history.Rule, format string, args ...any) {
	r.breaches = append(r.breaches, breach{rule, fmt.Sprintf(format, args...)})
}

// Run makes the run of the options and reports the results. It returns an error if
// it could not; that the service broke its promises is no error, but in the
// report. The report is of what happened so far even if there is an error.
func Run(ctx context.Context, opt Options) (report Report, err error) {
	if err := opt.Check(); err != nil {
		return report, err
	}
	opt = opt.withDefaults()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dir, err := os.MkdirTemp(opt.Dir, "timer-crash-")
	if err != nil {
		return report, fmt.Errorf("make the directory of the run: %w", err)
	}
	r := &run{
		opt: opt, dir: dir, rand: rand.New(rand.NewPCG(opt.Seed, 0xc2b2ae3d27d4eb4f)),
	}
	began := time.Now()
	err = r.do(ctx)
	report = r.report(time.Since(began))
	if err != nil {
		report.Error = err.Error()
	}
	return report, errors.Join(err, r.cleanUp(&report, err))
}

// do runs the test from the first start to the last stop.
func (r *run) do(ctx context.Context) (err error) {
	if r.opt.Bin == "" {
		var tags []string
		if r.opt.Mode == Step {
			tags = append(tags, stepTag)
		}
		if r.opt.Bin, err = Build(ctx, r.dir, tags...); err != nil {
			return err
		}
	}
	if r.opt.Mode == Upgrade {
		if r.oldBin, err = buildCommit(ctx, r.dir, r.opt.Old); err != nil {
			return err
		}
	}
	if r.port, err = freeport.Find(ctx); err != nil {
		return err
	}
	if r.database, err = r.openDatabase(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.database.close()) }()
	if !r.opt.Mode.embeds() {
		if err := r.beginBroker(ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.broker.Kill()) }() // a later one, if it was killed
	}
	for n := range r.opt.Instances {
		in, failed := r.newInstance(n)
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, in.log.Close()) }()
		r.instances = append(r.instances, in)
	}
	if r.opt.Mode == Upgrade {
		for _, in := range r.instances {
			in.bin = r.oldBin
		}
		if r.opt.Instances > 1 {
			if r.newcomer, err = r.newInstance(r.opt.Instances); err != nil {
				return err
			}
			newcomer := r.newcomer
			defer func() { err = errors.Join(err, newcomer.log.Close()) }()
		}
	}
	return r.serve(ctx)
}

// newInstance returns one that has no process yet. Each has a directory and a
// log of its own.
func (r *run) newInstance(n int) (*instance, error) {
	in := &instance{number: n + 1, bin: r.opt.Bin, dir: r.dir, env: r.database.environ()}
	if r.replicated != nil {
		in.env = []string{r.replicated.settingOf(in.number)}
	}
	logs := "service.log"
	if r.opt.Instances > 1 {
		in.dir = filepath.Join(r.dir, "instance-"+strconv.Itoa(in.number))
		if err := os.Mkdir(in.dir, 0o700); err != nil {
			return nil, fmt.Errorf("make the directory of an instance: %w", err)
		}
		logs = fmt.Sprintf("service-%d.log", in.number)
	}
	if r.opt.Mode.embeds() {
		in.env = append(in.env, "TIMER_NATS_PORT="+strconv.Itoa(r.port))
	} else {
		in.env = append(in.env, "TIMER_BROKER="+r.opt.Broker.Setting(), "TIMER_BROKER_URL="+cmp.Or(r.opt.URL, r.url()))
	}
	if r.opt.waits() {
		file := filepath.Join(r.dir, "quotas.yaml")
		if err := os.WriteFile(file, fmt.Appendf(nil, "tenants: {%s: {live_timers: %d}}\n", traffic.LimitedTenant, traffic.LiveLimit), 0o600); err != nil {
			return nil, err
		}
		in.env = append(in.env, "TIMER_QUOTAS_FILE="+file)
	}
	in.env = append(in.env, r.opt.Settings...)
	if r.opt.Queues != "" {
		in.env = append(in.env, "TIMER_RABBITMQ_QUEUE_TYPE="+r.opt.Queues)
	}
	var err error
	if in.log, err = os.Create(filepath.Join(r.dir, logs)); err != nil {
		return nil, fmt.Errorf("make the log of the service: %w", err)
	}
	return in, nil
}

// serve starts the service, and tests it.
func (r *run) serve(ctx context.Context) (err error) {
	if err := r.killAtSteps(ctx, r.opt.chosen(newFile)); err != nil {
		return err
	}
	defer func() { // an instance that has ended stays so
		for _, in := range r.instances {
			if in.isAlive() {
				err = errors.Join(err, in.life.Kill())
			}
		}
	}()
	for _, in := range r.instances {
		if err := r.begin(ctx, in); err != nil {
			return err
		}
	}
	if err := r.firstCut(ctx); err != nil {
		return err
	}
	if err := r.awaitAll(ctx); err != nil {
		return err
	}
	if err := r.connect(ctx, 0); err != nil {
		return err
	}
	defer func() { r.hangUp() }() // of a later wire, if the broker was emptied
	return r.test(ctx)
}

// connect connects with the broker, on which the service is up, and begins to observe.
func (r *run) connect(ctx context.Context, base uint64) (err error) {
	if r.wire, err = kinds[r.opt.Broker].dial(ctx, r); err != nil {
		return err
	}
	stop, err := r.wire.observe(ctx, &r.recorder)
	if err != nil {
		r.wire.close()
		return err
	}
	r.hangUp = func() {
		stop()
		r.wire.close()
		r.hangUp = func() {}
	}
	r.line.lead(r.wire, base)
	return nil
}

// test sends commands, faults, and waits for the end.
func (r *run) test(ctx context.Context) error {
	r.producer = &producer{to: &r.line, make: traffic.New(r.opt.Seed, tenants), recorder: &r.recorder, rate: r.opt.Rate, timeout: kinds[r.opt.Broker].timeout}
	old := r.opt.chosen(oldFile)
	if len(old) > 0 {
		if err := r.makeOld(ctx, r.producer); err != nil {
			return err
		}
	}
	r.startLoad(ctx)
	var err error
	if r.opt.Mode == Step {
		err = r.killAtStepsAndStart(ctx, append(old, r.opt.chosen(working, ending)...))
	} else {
		err = r.injectAll(ctx)
	}
	r.stopLoad()
	if err != nil {
		return err
	}
	if err := r.settle(ctx); err != nil {
		return err
	}
	if err := r.readStream(ctx); err != nil {
		return err
	}
	for _, in := range r.instances {
		if err := r.end(ctx, in); err != nil {
			return err
		}
	}
	return nil
}

// startLoad has commands sent until stopLoad, which returns when each is confirmed or given up.
func (r *run) startLoad(ctx context.Context) {
	enough, produced := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(produced)
		r.producer.run(ctx, enough)
	}()
	r.stopLoad = sync.OnceFunc(func() {
		close(enough)
		<-produced
	})
}

// report judges the records.
func (r *run) report(took time.Duration) Report {
	verdict := r.verdict()
	if r.opt.Mode != Term {
		verdict.Excuse(history.Duplicate, history.Repeated) // at least once: a fault explains them
	}
	for _, b := range r.breaches {
		verdict.Add(b.rule, "%s", b.text)
	}
	slices.Sort(r.starts)
	report := Report{
		opt: r.opt, Kills: r.faults, Lives: r.lives, Ready: len(r.starts),
		Refusals: r.refusals, Ended: r.ended, Steps: r.steps, Seconds: took.Seconds(), Dir: r.dir, Verdict: verdict,
	}
	if len(r.starts) > 0 {
		report.StartMS = float64(r.starts[len(r.starts)/2].Microseconds()) / 1000
	}
	return report
}
