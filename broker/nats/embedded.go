package nats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"

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
// SyncLazily is set, what it has acked survives a power cut.
type Embedded struct {
	server    *server.Server
	dir       string
	portTaken bool
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
	s, err := server.NewServer(&server.Options{
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
	})
	if err != nil {
		return nil, err
	}
	s.SetLoggerV2(serverLog{log}, false, false, false)
	s.Start()
	e := &Embedded{server: s, dir: opt.StoreDir, portTaken: taken}
	if !s.ReadyForConnections(startTimeout) {
		e.Shutdown()
		return nil, fmt.Errorf("no answer on %s within %v", net.JoinHostPort(opt.Host, strconv.Itoa(opt.Port)), startTimeout)
	}
	if !s.JetStreamEnabled() {
		e.Shutdown()
		return nil, fmt.Errorf("JetStream can't keep its data in %s; see the log", opt.StoreDir)
	}
	return e, nil
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
func (e *Embedded) URL() string {
	if e.server.Addr() == nil {
		return ""
	}
	return e.server.ClientURL()
}

// PortTaken reports whether the port asked for was taken.
func (e *Embedded) PortTaken() bool { return e.portTaken }

// InProcessConn returns a connection that does not go through the network.
func (e *Embedded) InProcessConn() (net.Conn, error) { return e.server.InProcessConn() }

// Shutdown stops the server and waits until it is done.
func (e *Embedded) Shutdown() {
	e.server.Shutdown()
	e.server.WaitForShutdown()
}

// room returns how large a stream may become: three quarters of what the disk
// has free and the streams use already.
func (e *Embedded) room() int64 {
	free, err := freeBytes(e.dir)
	if err != nil {
		return math.MaxInt64
	}
	used := int64(0)
	if stats, err := e.server.Jsz(nil); err == nil {
		used = int64(min(stats.Store, math.MaxInt64/2))
	}
	return (min(free, math.MaxInt64/2) + used) / 4 * 3
}

// serverLog writes what the server has to say.
type serverLog struct{ log *slog.Logger }

func (l serverLog) write(level slog.Level, format string, v ...any) {
	l.log.Log(context.Background(), level, "NATS server", "text", fmt.Sprintf(format, v...))
}

// Noticef writes what happens at every start and stop.
func (l serverLog) Noticef(format string, v ...any) { l.write(slog.LevelDebug, format, v...) }

// Warnf writes what may need a look.
func (l serverLog) Warnf(format string, v ...any) { l.write(slog.LevelWarn, format, v...) }

// Fatalf writes why the server can't go on. It does not end the process.
func (l serverLog) Fatalf(format string, v ...any) { l.write(slog.LevelError, format, v...) }

// Errorf writes what went wrong.
func (l serverLog) Errorf(format string, v ...any) { l.write(slog.LevelError, format, v...) }

// Debugf writes nothing: it is not asked for.
func (l serverLog) Debugf(string, ...any) {}

// Tracef writes nothing: it is not asked for.
func (l serverLog) Tracef(string, ...any) {}
