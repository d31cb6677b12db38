package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/internal/freeport"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/internal/proxy"
	"github.com/event-service-agent/timer-service/service"
	"github.com/event-service-agent/timer-service/verify/crash"
)

const (
	startLimit = time.Minute // for an instance until it takes commands
	stopLimit  = time.Minute
)

// A system is a broker, a database, instances of the service, and a client.
type system struct {
	opt       Options
	dir       string
	store     *store
	broker    crash.Server // nil if it is embedded
	instances []*crash.Process

	fell chan struct{} // closed when an instance has ended
	fall error         // how; set before fell is closed
	once sync.Once     // the first fall

	client broker.Broker
	reader reader         // of the database
	close  []func() error // in reverse
}

// open starts everything. The caller shuts the system, also after an error.
// Before the service starts, its database is filled.
func open(ctx context.Context, opt Options, fill ...load) (s *system, err error) {
	s = &system{opt: opt, fell: make(chan struct{})}
	if err := opt.check(); err != nil {
		return s, err
	}
	if s.dir, err = os.MkdirTemp("", "timer-bench-"); err != nil {
		return s, err
	}
	s.close = append(s.close, func() error { return os.RemoveAll(s.dir) })
	if s.store, err = openStore(ctx, opt.Store, s.dir); err != nil {
		return s, err
	}
	s.close = append(s.close, s.store.close)
	for _, l := range append(fill, opt.pending()) {
		if l.timers > 0 {
			if err := s.store.fill(ctx, l, opt.Progress); err != nil {
				return s, err
			}
		}
	}
	settings := []string{"TIMER_BROKER=" + opt.Broker.Setting(), "TIMER_DURABILITY=" + string(config.Strict), "TIMER_NATS_PORT=0"}
	near := []string{s.store.setting()} // addresses of the servers themselves, for the client
	if !opt.Embedded {
		var url string
		if url = opt.Kafka; url != "" {
			s.broker, err = crash.UseKafka(ctx, url)
		} else {
			s.broker, url, err = startBroker(ctx, opt.Broker, s.dir)
		}
		if err != nil {
			return s, err
		}
		s.close = append(s.close, s.broker.Kill)
		near = append(near, "TIMER_BROKER_URL="+url)
	}
	far, err := s.away(near)
	if err != nil {
		return s, err
	}
	if err := s.start(ctx, slices.Concat(settings, far, opt.Settings)); err != nil {
		return s, err
	}
	return s, s.connect(ctx, slices.Concat(settings, near, opt.Settings))
}

// away puts a network between the service and the servers that settings name, if it was asked
// for, and returns the settings of the service.
func (s *system) away(settings []string) (far []string, err error) {
	for _, setting := range settings {
		name, value, _ := strings.Cut(setting, "=")
		u, err := url.Parse(value)
		if err == nil && u.Host != "" && s.opt.RoundTrip > 0 {
			p := proxy.New(proxy.TCP(u.Host))
			s.close = append(s.close, p.Close)
			p.Delay(proxy.ToServer, s.opt.RoundTrip/2)
			p.Delay(proxy.ToClient, s.opt.RoundTrip/2)
			if u.Host, err = p.Listen(); err != nil {
				return nil, err
			}
			value = u.String()
		}
		far = append(far, name+"="+value)
	}
	return far, nil
}

// startBroker starts one on a free port, and returns its URL.
func startBroker(ctx context.Context, kind crash.Kind, dir string) (crash.Server, string, error) {
	port, err := freeport.Find(ctx)
	if err != nil {
		return nil, "", err
	}
	b, err := crash.StartServer(ctx, kind, dir, port)
	return b, kind.URL(port), err
}

// start starts the instances, one after the other.
func (s *system) start(ctx context.Context, settings []string) (err error) {
	bin := s.opt.Bin
	if bin == "" {
		if bin, err = crash.Build(ctx, s.dir); err != nil {
			return err
		}
	}
	s.close = append(s.close, s.stop)
	for range s.opt.Instances {
		p, err := crash.Start(ctx, bin, "", settings, io.Discard)
		if err != nil {
			return err
		}
		s.instances = append(s.instances, p)
		go func() {
			<-p.Ended
			s.once.Do(func() {
				s.fall = fmt.Errorf("the service ended: %w\n%s", p.Err, p.Last(40))
				close(s.fell)
			})
		}()
		if err := p.Await(ctx, startLimit); err != nil {
			return err
		}
	}
	return nil
}

// stop ends the instances together, which must be cleanly.
func (s *system) stop() error {
	errs := make([]error, len(s.instances))
	var stopping sync.WaitGroup
	for n, p := range s.instances {
		stopping.Go(func() {
			if err := p.Stop(stopLimit); err != nil {
				errs[n] = fmt.Errorf("the service: %w\n%s", err, p.Last(40))
			}
		})
	}
	stopping.Wait()
	return errors.Join(errs...)
}

// connect makes the client, as producers and consumers have it, and opens the
// database of the service.
func (s *system) connect(ctx context.Context, settings []string) error {
	cfg, err := config.Load(nil, settings, "")
	if err != nil {
		return err
	}
	if s.client, _, err = service.Client(cfg, slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- s.client.Run(running) }()
	s.close = append(s.close, func() error { cancel(); return <-done })
	if err := pause.Until(ctx, func() (bool, error) { return s.client.Ready(ctx) == nil, nil }); err != nil {
		return err
	}
	if s.reader, err = s.store.reader(ctx); err != nil {
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

// accepted waits until the service has committed n timers, in addition to those
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
func (s *system) shut() error { return closeAll(s.close) }

func closeAll(all []func() error) (err error) {
	for _, end := range slices.Backward(all) {
		err = errors.Join(err, end())
	}
	return err
}
