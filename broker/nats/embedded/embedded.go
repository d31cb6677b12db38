// Package embedded runs a NATS server with JetStream in this process. Hosts that
// connect with a server elsewhere do not link it.
package embedded

import (
	"cmp"
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
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	"github.com/nats-io/nats-server/v2/server"
)

const (
	startTimeout = 30 * time.Second // longest start; recovering a large store takes a while
	startPoll    = 100 * time.Millisecond
	lazySync     = time.Second           // between syncs, if not every message is synced
	flushWait    = 16 * time.Millisecond // longest sleep of a stream's flusher, for which the shutdown does not wait (nats-server v2.15.3)
	loopback     = "127.0.0.1"
)

// Options tune a [Server].
type Options struct {
	Host       string  // address to listen on; default 127.0.0.1
	Port       int     // 0 for any that is free
	PortOnly   bool    // a Port that is taken is an error, instead of a free one
	StoreDir   string  // where streams are kept; it is made, readable to its owner only; required
	DontListen bool    // for this process only: Port is not used and URL is empty
	SyncLazily bool    // ack before the disk has it: a power cut loses about a second
	Access     *Access // rights of clients; nil: each may do everything
}

// A Server is a NATS server with JetStream in this process. Unless SyncLazily is
// set, messages that it has acked survive a power cut. After its disk was full it restarts
// by itself.
type Server struct {
	dir    string
	url    string // empty if it does not listen
	opt    server.Options
	log    *slog.Logger
	lock   *flock.Flock // lock of the folder, which two servers would corrupt
	access *Access      // nil: each client may do everything
	relay  relay

	current atomic.Pointer[server.Server] // the server that runs, or the last one that ran

	failed chan struct{}      // signals that a file could not be written
	stop   context.CancelFunc // ends work
	work   sync.WaitGroup
}

// Start starts a server and returns when it answers. If the port is taken the server
// listens on a free one, unless PortOnly is set. Start removes the permissions that other
// users had for the folder.
func Start(opt Options, log *slog.Logger) (_ *Server, err error) {
	if err := errors.Join(os.MkdirAll(opt.StoreDir, 0o700), os.Chmod(opt.StoreDir, 0o700)); err != nil {
		return nil, err
	}
	lock := flock.New(filepath.Join(opt.StoreDir, "lock"), flock.SetPermissions(0o600))
	switch locked, err := lock.TryLock(); {
	case err != nil:
		return nil, fmt.Errorf("lock the data of the embedded server: %w", err)
	case !locked:
		return nil, fmt.Errorf("another process has the data of the embedded server in %s: instances that share a database need a broker of their own, set broker_url", opt.StoreDir)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Unlock())
		}
	}()
	opt.Host = cmp.Or(opt.Host, loopback)
	switch err := Free(opt.Host, opt.Port); {
	case err == nil, opt.DontListen:
	case opt.PortOnly, !errors.Is(err, syscall.EADDRINUSE):
		return nil, err
	default:
		opt.Port = 0
	}
	s := &Server{dir: opt.StoreDir, log: log, lock: lock, access: opt.Access, failed: make(chan struct{}, 1)}
	s.opt = server.Options{
		ServerName:        "timer-service",
		Host:              opt.Host,
		Port:              cmp.Or(opt.Port, server.RANDOM_PORT),
		DontListen:        opt.DontListen,
		NoSigs:            true,
		JetStream:         true,
		StoreDir:          opt.StoreDir,
		JetStreamMaxStore: math.MaxInt64 / 2, // the stream has a limit of its own; a smaller one here could keep it from being recovered
		SyncAlways:        !opt.SyncLazily,
		SyncInterval:      lazySync,
	}
	if err := s.launch(); err != nil {
		return nil, err
	}
	if a, ok := s.current.Load().Addr().(*net.TCPAddr); ok {
		s.opt.Port = a.Port
		host := opt.Host
		if a.IP.IsUnspecified() {
			host = loopback
		}
		s.url = "nats://" + net.JoinHostPort(host, strconv.Itoa(a.Port))
	}
	if s.access != nil {
		if err := s.relay.start(s, s.access); err != nil {
			shutDown(s.current.Load())
			return nil, err
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.work.Go(func() { s.restartAfterFailures(ctx) })
	return s, nil
}

// launch starts a server and returns when it answers.
func (s *Server) launch() error {
	opt := s.opt // the server changes it
	d := &door{access: s.access, ready: make(chan struct{})}
	defer close(d.ready)
	if s.access != nil {
		opt.CustomClientAuthentication = d
		if s.access.Token == "" { // then clients are notified that they need no credentials
			opt.NoAuthUser, opt.Users = guestsAccount, []*server.User{{Username: guestsAccount}}
		}
	}
	n, err := server.NewServer(&opt)
	if err != nil {
		return err
	}
	fatal := make(chan error, 1)
	n.SetLoggerV2(serverLog{s.log, s.failed, fatal}, false, false, false)
	n.Start()
	if err = s.answers(n, fatal); err == nil && s.access != nil {
		err = d.open(n)
	}
	if err != nil {
		shutDown(n)
		return err
	}
	s.current.Store(n)
	return nil
}

// answers waits until a server that was started answers, or returns why it can't.
func (s *Server) answers(n *server.Server, fatal <-chan error) error {
	late := time.After(startTimeout)
	for !n.ReadyForConnections(startPoll) {
		select {
		case err := <-fatal:
			return err
		case <-late:
			return fmt.Errorf("no answer on %s within %v", net.JoinHostPort(s.opt.Host, strconv.Itoa(s.opt.Port)), startTimeout)
		default:
		}
	}
	if !n.JetStreamEnabled() {
		return fmt.Errorf("JetStream can't keep its data in %s; see the log", s.dir)
	}
	return nil
}

func shutDown(n *server.Server) {
	n.Shutdown()
	n.WaitForShutdown()
}

// Free returns why no server can listen on a port, nil if one can.
func Free(host string, port int) error {
	at := net.JoinHostPort(host, strconv.Itoa(port))
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", at)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s is taken by another server: %w", at, err)
	case err != nil:
		return err
	}
	return l.Close()
}

// URL returns where clients of this machine connect; empty if the server does not
// listen.
func (s *Server) URL() string { return s.url }

// Address returns the host and the port on which the server listens.
func (s *Server) Address() (host string, port int) { return s.opt.Host, s.opt.Port }

// Syncs reports whether the server syncs a message to the disk before it acks it.
func (s *Server) Syncs() bool { return s.opt.SyncAlways }

// InProcessConn returns a connection that does not go through the network.
func (s *Server) InProcessConn() (net.Conn, error) {
	n := s.current.Load()
	if !n.Running() {
		return nil, errors.New("the embedded server is down")
	}
	return n.InProcessConn()
}

// Shutdown stops the server and waits until it is done.
func (s *Server) Shutdown() {
	s.stop()
	s.work.Wait()
	s.relay.close()
	shutDown(s.current.Load())
	<-time.After(flushWait)
	_ = s.lock.Unlock() // the process ends it too
}

// Capacity returns how large a stream may become: three quarters of the bytes that are
// free on the disk or in use by streams.
func (s *Server) Capacity() int64 {
	free, err := freeBytes(s.dir)
	if err != nil {
		return math.MaxInt64
	}
	used := int64(0)
	if stats, err := s.current.Load().Jsz(nil); err == nil {
		used = int64(min(stats.Store, math.MaxInt64/2))
	}
	return (min(free, math.MaxInt64/2) + used) / 4 * 3
}
