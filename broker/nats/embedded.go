package nats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	"github.com/nats-io/nats-server/v2/server"
)

const (
	startTimeout = 30 * time.Second // longest start; recovering a large store takes a while
	lazySync     = time.Second      // between syncs, if not every message is synced
	loopback     = "127.0.0.1"
)

// EmbeddedOptions tune an [Embedded] server.
type EmbeddedOptions struct {
	Host       string // address to listen on; default 127.0.0.1
	Port       int    // 0 for any that is free
	StoreDir   string // where streams are kept; it is made, readable to nobody else; required
	DontListen bool   // for this process only: Port is not used and URL is empty
	SyncLazily bool   // ack before the disk has it: a power cut loses about a second
}

// An Embedded is a NATS server with JetStream in this process. Unless
// SyncLazily is set, what it has acked survives a power cut. After its disk was
// full it goes on by itself: see mend.
type Embedded struct {
	dir       string
	portTaken bool
	url       string // empty if it does not listen
	opt       server.Options
	log       *slog.Logger
	lock      *flock.Flock // of the folder: two servers in one would corrupt it

	mu     sync.Mutex
	server *server.Server

	ill  chan struct{} // holds one: a file could not be written
	once sync.Once
	stop chan struct{}
	work sync.WaitGroup
}

// StartEmbedded starts a server and returns when it answers. If the port is
// taken it takes a free one.
func StartEmbedded(opt EmbeddedOptions, log *slog.Logger) (*Embedded, error) {
	if opt.StoreDir == "" {
		return nil, errors.New("the store directory is missing")
	}
	if err := os.MkdirAll(opt.StoreDir, 0o700); err != nil {
		return nil, err
	}
	lock := flock.New(filepath.Join(opt.StoreDir, "lock"), flock.SetPermissions(0o600))
	switch locked, err := lock.TryLock(); {
	case err != nil:
		return nil, fmt.Errorf("lock the data of the embedded server: %w", err)
	case !locked:
		return nil, fmt.Errorf("another process has the data of the embedded server in %s: instances that share a database need a broker of their own, set broker_url", opt.StoreDir)
	}
	e, err := startLocked(opt, lock, log)
	if err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	return e, nil
}

// startLocked starts a server in a folder that nobody else has.
func startLocked(opt EmbeddedOptions, lock *flock.Flock, log *slog.Logger) (*Embedded, error) {
	if opt.Host == "" {
		opt.Host = loopback
	}
	taken := false
	if opt.Port > 0 && !opt.DontListen {
		var err error
		if taken, err = inUse(opt.Host, opt.Port); err != nil {
			return nil, err
		}
	}
	if opt.Port <= 0 || taken {
		opt.Port = server.RANDOM_PORT
	}
	e := &Embedded{dir: opt.StoreDir, portTaken: taken, log: log, lock: lock, ill: make(chan struct{}, 1), stop: make(chan struct{})}
	e.opt = server.Options{
		ServerName:        "timer-service",
		Host:              opt.Host,
		Port:              opt.Port,
		DontListen:        opt.DontListen,
		NoSigs:            true,
		JetStream:         true,
		StoreDir:          opt.StoreDir,
		JetStreamMaxStore: math.MaxInt64 / 2, // the stream has a limit of its own; a smaller one here could keep it from being recovered
		SyncAlways:        !opt.SyncLazily,
		SyncInterval:      lazySync,
	}
	if err := e.launch(); err != nil {
		return nil, err
	}
	if a, ok := e.current().Addr().(*net.TCPAddr); ok {
		e.opt.Port = a.Port
		e.url = e.current().ClientURL()
	}
	e.work.Go(e.mend)
	return e, nil
}

// launch starts a server and returns when it answers.
func (e *Embedded) launch() error {
	opt := e.opt // the server changes it
	s, err := server.NewServer(&opt)
	if err != nil {
		return err
	}
	s.SetLoggerV2(serverLog{e.log, e.ill}, false, false, false)
	s.Start()
	switch {
	case !s.ReadyForConnections(startTimeout):
		err = fmt.Errorf("no answer on %s within %v", net.JoinHostPort(opt.Host, strconv.Itoa(opt.Port)), startTimeout)
	case !s.JetStreamEnabled():
		err = fmt.Errorf("JetStream can't keep its data in %s; see the log", e.dir)
	default:
		e.mu.Lock()
		defer e.mu.Unlock()
		e.server = s
		return nil
	}
	shutDown(s)
	return err
}

// current returns the server that runs, or the last that did.
func (e *Embedded) current() *server.Server {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.server
}

func shutDown(s *server.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}

// inUse reports whether somebody listens on a port.
func inUse(host string, port int) (bool, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if errors.Is(err, syscall.EADDRINUSE) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, l.Close()
}

// URL returns where clients connect; empty if the server does not listen.
func (e *Embedded) URL() string { return e.url }

// PortTaken reports whether the port asked for was taken.
func (e *Embedded) PortTaken() bool { return e.portTaken }

// InProcessConn returns a connection that does not go through the network.
func (e *Embedded) InProcessConn() (net.Conn, error) {
	s := e.current()
	if !s.Running() {
		return nil, errors.New("the embedded server is down")
	}
	return s.InProcessConn()
}

// Shutdown stops the server and waits until it is done.
func (e *Embedded) Shutdown() {
	e.once.Do(func() { close(e.stop) })
	e.work.Wait()
	shutDown(e.current())
	_ = e.lock.Unlock() // the process ends it too
}

// room returns how large a stream may become: three quarters of what the disk
// has free and the streams use already.
func (e *Embedded) room() int64 {
	free, err := freeBytes(e.dir)
	if err != nil {
		return math.MaxInt64
	}
	used := int64(0)
	if stats, err := e.current().Jsz(nil); err == nil {
		used = int64(min(stats.Store, math.MaxInt64/2))
	}
	return (min(free, math.MaxInt64/2) + used) / 4 * 3
}
