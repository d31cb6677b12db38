package services

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/verify/services/judge"
)

// Options say what [Run] does.
type Options struct {
	Service  string // one of [Names]
	Faults   int
	Seed     uint64
	Rate     int    // timers a second
	Delay    int    // the longest, in seconds; default 20
	Out      string // folder for the history and the verdict
	Progress io.Writer
}

// A service is a client of one, which has several commands on their way at once.
type service interface {
	// do sends a command once and waits for the answer. After an error the command may have
	// had its effect, and do is called again.
	do(ctx context.Context, c command) (answer, error)
}

// A world is a service with all of its processes.
type world struct {
	dir     string // for data
	logs    string // for what processes print
	rec     *recorder
	harm    harm
	closing []func() error // in reverse
}

func (w *world) onClose(end func() error) { w.closing = append(w.closing, end) }

func (w *world) close() (err error) {
	for _, end := range slices.Backward(w.closing) {
		err = errors.Join(err, end())
	}
	return err
}

// A contestant is a service that can be judged.
type contestant struct {
	name  string
	title string // for people, with the version
	can   Abilities
	ours  bool
	open  func(ctx context.Context, w *world) (service, error)
}

var contestants = []contestant{
	{"sqlite", "timer-service on SQLite and NATS", Abilities{true, true}, true, openSQLite},
	{"postgres", "timer-service on PostgreSQL and NATS", Abilities{true, true}, true, openPostgres},
	{"nats", "NATS schedules, one server", Abilities{true, true}, false, openNATS},
	{"nats3", "NATS schedules, three servers", Abilities{true, true}, false, openCluster},
	{"river", "River", Abilities{true, true}, false, openRiver},
	{"temporal", "Temporal, development server", Abilities{true, true}, false, openTemporal},
	{"rabbitmq", "RabbitMQ, a queue with a TTL for each delay", Abilities{}, false, openRabbitMQ},
}

// Names are the services that can be judged.
func Names() (all []string) {
	for _, c := range contestants {
		all = append(all, c.name)
	}
	return all
}

// A Result is what became of one service.
type Result struct {
	Title   string
	Can     Abilities
	Ours    bool
	Seconds int // of load
	Skipped int // timers that were not sent, since too many commands waited for their answer
	File    string
	Verdict judge.Verdict
}

const (
	mostDelay = 20               // seconds
	lastWait  = 2 * time.Minute  // for the last events, after their due time
	afterLast = 10 * time.Second // in which events may come that must not
	progress  = 10               // faults between two lines
)

// Run harms one service and has its history judged. It returns an error if it could not, or if
// the two judges disagree; that the service broke a rule is in the verdict.
func Run(ctx context.Context, opt Options) (result Result, err error) {
	i := slices.IndexFunc(contestants, func(c contestant) bool { return c.name == opt.Service })
	if i < 0 {
		return result, fmt.Errorf("service %q is none of %q", opt.Service, Names())
	}
	c := contestants[i]
	opt.Delay = cmp.Or(opt.Delay, mostDelay)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out := filepath.Join(opt.Out, c.name)
	if err := errors.Join(os.RemoveAll(out), os.MkdirAll(out, 0o755)); err != nil {
		return result, err
	}
	result = Result{Title: c.title, Ours: c.ours, Can: c.can, File: filepath.Join(out, "history.jsonl")}
	w := &world{logs: out}
	defer func() { err = errors.Join(err, w.close()) }()
	if w.dir, err = os.MkdirTemp("", "timer-services-"); err != nil {
		return result, err
	}
	w.onClose(func() error { return os.RemoveAll(w.dir) })
	if w.rec, err = record(result.File, c.name); err != nil {
		return result, err
	}
	s, err := c.open(ctx, w)
	if err != nil {
		return result, fmt.Errorf("start %s: %w", c.title, errors.Join(err, w.rec.close()))
	}
	l := &load{to: s, rec: w.rec, rate: opt.Rate, most: opt.Delay, rand: rand.New(rand.NewPCG(opt.Seed, 1)), can: c.can}
	began := time.Now()
	err = w.test(ctx, l, opt)
	result.Seconds, result.Skipped = int(time.Since(began).Seconds()), l.skipped
	if err = errors.Join(err, w.rec.close()); err != nil {
		return result, err
	}
	if result.Verdict, err = JudgeFile(ctx, result.File); err != nil {
		return result, err
	}
	text, err := json.MarshalIndent(result, "", "  ")
	if err != nil {
		return result, err
	}
	return result, os.WriteFile(filepath.Join(out, "result.json"), append(text, '\n'), 0o600)
}

// test sends the load, injects the faults, and waits for the owed events.
func (w *world) test(ctx context.Context, l *load, opt Options) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	loaded := make(chan struct{})
	go func() {
		defer close(loaded)
		l.run(ctx, running)
	}()
	err := w.injectAll(ctx, opt)
	stop()
	<-loaded
	if err != nil {
		return err
	}
	last := time.Duration(opt.Delay) * time.Second
	for end := time.Now().Add(last + lastWait); time.Now().Before(end); {
		if _, _, owed := w.rec.counts(); owed == 0 {
			break
		}
		if !pause.For(ctx, 100*time.Millisecond) {
			return ctx.Err()
		}
	}
	pause.For(ctx, last+afterLast) // the old times of moved and canceled timers are over by then
	return ctx.Err()
}

func (w *world) injectAll(ctx context.Context, opt Options) error {
	pause.For(ctx, longestGap)
	for i, f := range faultsOf(opt.Seed, opt.Faults) {
		if err := w.harm.inject(ctx, w.rec, i+1, f); err != nil {
			return err
		}
		w.harm.await(ctx)
		pause.For(ctx, f.gap)
		if (i+1)%progress == 0 {
			sent, seen, owed := w.rec.counts()
			fmt.Fprintf(opt.Progress, "%s: %d of %d faults, %d commands, %d events, %d wait\n", opt.Service, i+1, opt.Faults, sent, seen, owed)
		}
	}
	return nil
}

// JudgeFile has both judges judge a history, who must agree.
func JudgeFile(ctx context.Context, path string) (judge.Verdict, error) {
	file, err := os.Open(path)
	if err != nil {
		return judge.Verdict{}, err
	}
	defer file.Close()
	first, err := judge.Judge(file)
	if err != nil {
		return first, fmt.Errorf("judge %s: %w", path, err)
	}
	second, err := judge.Second(ctx, path)
	if err != nil {
		return first, err
	}
	if !reflect.DeepEqual(first, second[0]) {
		return first, fmt.Errorf("the judges disagree about %s: %+v and %+v", path, first, second[0])
	}
	return first, nil
}

// WriteTable writes the rows of a table in Markdown.
func WriteTable(out io.Writer, results []Result) {
	fmt.Fprintln(out, "| service | commands, events | lost | early | second id | old time | canceled | invented | late: p50, p99, max | clean after: median, max | same id again | both times | doubtful |")
	fmt.Fprintln(out, "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- | ---: | ---: | ---: |")
	for _, r := range results {
		v := r.Verdict
		moved, canceled := "-", "-"
		if r.Can.Move {
			moved = strconv.Itoa(len(v.Superseded))
		}
		if r.Can.Cancel {
			canceled = strconv.Itoa(len(v.Canceled))
		}
		fmt.Fprintf(out, "| %s | %d, %d | %d | %d | %d | %s | %s | %d | %s, %s, %s s | %s, %s s | %d | %d | %d |\n",
			r.Title, v.Commands, v.Events, len(v.Lost), len(v.Early), len(v.Doubled), moved, canceled, len(v.Invented),
			seconds(v.LateP50), seconds(v.LateP99), seconds(v.LateMax), seconds(v.CleanP50), seconds(v.CleanMax), v.Repeated, v.Both, v.Doubtful)
	}
}

func seconds(us int64) string { return fmt.Sprintf("%.3g", float64(us)/1e6) }
