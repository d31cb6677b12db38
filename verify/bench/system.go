package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	port "github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/service"
	"github.com/event-service-agent/timer-service/verify/bench/database"
	"github.com/event-service-agent/timer-service/verify/crash"
)

// A system is a broker, a database, instances of the service, and a client.
type system struct {
	opt       Options
	dir       string
	bin       string // the service
	database  database.Database
	config    config.Config
	environ   []string     // of the instances
	broker    crash.Server // nil if it is embedded, or was running already
	instances []*instance

	fell chan struct{} // closed when an instance has ended
	fall error         // how; set before fell is closed
	once sync.Once     // the first fall
	stop atomic.Bool   // an instance is to end

	client port.Broker
	reader database.Reader // of the database
	close  []func() error  // in reverse
}

func newSystem(opt Options) *system { return &system{opt: opt, fell: make(chan struct{})} }

// open starts everything. The caller shuts the system, also after an error.
// Before the service starts, prepare fills its database.
func open(ctx context.Context, opt Options, prepare ...database.Load) (*system, error) {
	s := newSystem(opt)
	if err := opt.check(); err != nil {
		return s, err
	}
	d, err := opt.database(ctx)
	if err != nil {
		return s, err
	}
	s.close = append(s.close, d.Drop)
	if opt.Pending > 0 {
		prepare = append(prepare, opt.pending())
	}
	for _, load := range prepare {
		if err := d.Fill(ctx, load, opt.Progress); err != nil {
			return s, err
		}
	}
	return s, s.serve(ctx, d)
}

// database makes one.
func (o Options) database(ctx context.Context) (database.Database, error) {
	return database.New(ctx, database.Options{Kind: o.Store, URL: o.DBURL})
}

// serve starts a broker and the service on a database, and connects with both.
func (s *system) serve(ctx context.Context, d database.Database) (err error) {
	s.database = d
	if s.dir, err = os.MkdirTemp("", "timer-bench-"); err != nil {
		return err
	}
	s.close = append(s.close, func() error { return os.RemoveAll(s.dir) })
	url := s.opt.BrokerURL
	if url == "" && !s.opt.Embedded {
		if s.broker, url, err = crash.StartServer(ctx, s.opt.Broker, s.dir); err != nil {
			return err
		}
		s.close = append(s.close, s.broker.Stop)
	}
	if err := s.configure(url); err != nil {
		return err
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	return s.connect(ctx)
}

// configure makes the environment of the instances, and what it means.
func (s *system) configure(brokerURL string) (err error) {
	settings := map[string]string{
		"TIMER_BROKER": string(s.opt.Broker), "TIMER_BROKER_URL": brokerURL,
		"TIMER_DURABILITY": string(config.Strict), "TIMER_NATS_PORT": "0",
	}
	maps.Copy(settings, s.database.Settings())
	for _, set := range s.opt.Settings {
		name, value, _ := strings.Cut(set, "=")
		settings[name] = value
	}
	for name, value := range settings {
		s.environ = append(s.environ, name+"="+value)
	}
	s.config, err = config.Load(nil, s.environ, "")
	return err
}

// start starts the instances, one after the other.
func (s *system) start(ctx context.Context) (err error) {
	if s.bin = s.opt.Bin; s.bin == "" {
		if s.bin, err = crash.Build(ctx, s.dir); err != nil {
			return err
		}
	}
	s.close = append(s.close, func() error { return stopAll(s.instances) })
	return s.startInstances(ctx)
}

func (s *system) startInstances(ctx context.Context) error {
	for range s.opt.Instances {
		i, err := start(ctx, s.bin, s.environ, s.fallen)
		if i != nil {
			s.instances = append(s.instances, i)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fallen notes that an instance has ended.
func (s *system) fallen(err error) {
	if s.stop.Load() {
		return
	}
	s.once.Do(func() {
		s.fall = fmt.Errorf("the service ended: %w", err)
		close(s.fell)
	})
}

// restart stops the instances and starts as many.
func (s *system) restart(ctx context.Context) error {
	began := time.Now()
	s.stop.Store(true)
	err := stopAll(s.instances)
	s.instances = nil
	s.stop.Store(false)
	if err != nil {
		return err
	}
	stopped := time.Since(began)
	err = s.startInstances(ctx)
	fmt.Fprintf(s.opt.Progress, "the service stopped in %v and started in %v\n", stopped.Round(time.Millisecond), (time.Since(began) - stopped).Round(time.Millisecond))
	return err
}

// connect makes the client, as producers and consumers have it, and opens the
// database of the service.
func (s *system) connect(ctx context.Context) error {
	client, _, err := service.Client(s.config, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- client.Run(running) }()
	s.close = append(s.close, func() error { cancel(); return <-done })
	s.client = client
	for client.Ready(ctx) != nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	if s.reader, err = s.database.OpenReader(ctx); err != nil {
		return err
	}
	s.close = append(s.close, s.reader.Close)
	return nil
}

// Between two polls whether all is accepted.
const (
	pollMin = 2 * time.Millisecond
	pollMax = 200 * time.Millisecond
)

// accepted waits until the service has committed so many timers, beside those
// that were there, and returns when that was. It reads the counts, more often
// the nearer the end is.
func (s *system) accepted(ctx context.Context, before int64, timers int) (time.Time, error) {
	began := time.Now()
	for {
		n, err := s.known(ctx)
		if err != nil {
			return time.Time{}, err
		}
		missing := before + int64(timers) - n
		if missing <= 0 {
			return time.Now(), nil
		}
		left := time.Since(began) * time.Duration(missing) / time.Duration(max(1, n-before))
		select {
		case <-time.After(min(max(left/4, pollMin), pollMax)):
		case <-s.fell:
			return time.Time{}, s.fall
		case <-ctx.Done():
			return time.Time{}, ctx.Err()
		}
	}
}

// known returns how many timers the database knows, in whatever state.
func (s *system) known(ctx context.Context) (int64, error) {
	stats, err := s.reader.Stats(ctx, "")
	if err != nil {
		return 0, fmt.Errorf("read the database: %w", err)
	}
	return stats.Scheduled + stats.Reached + stats.Canceled, nil
}

// shut ends everything, the last first.
func (s *system) shut() (err error) {
	for i := len(s.close) - 1; i >= 0; i-- {
		err = errors.Join(err, s.close[i]())
	}
	return err
}
