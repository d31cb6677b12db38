package faults_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/internal/freeport"
	"github.com/event-service-agent/timer-service/internal/proxy"
	"github.com/event-service-agent/timer-service/internal/rabbitd"
)

// causes are faults of all that the service stands on, by name.
var causes = map[string]cause{
	"NATS killed":                                   {part: "broker", quick: true, set: brokerFault("nats", away)},
	"NATS frozen (SIGSTOP)":                         {part: "broker", set: brokerFault("nats", frozen)},
	"Kafka killed":                                  {part: "broker", set: brokerFault("kafka", away)},
	"Kafka frozen (SIGSTOP)":                        {part: "broker", set: brokerFault("kafka", frozen)},
	"RabbitMQ away":                                 {part: "broker", set: rabbitFault(refuse)},
	"RabbitMQ with dead connections":                {part: "broker", set: rabbitFault(silence)},
	"PostgreSQL away":                               {part: "store", set: postgresFault(refuse)},
	"PostgreSQL with dead connections":              {part: "store", set: postgresFault(silence)},
	"SQLite on a full file system":                  {part: "store", quick: true, set: diskFull},
	"SQLite on a file system that became read-only": {part: "store", set: diskReadOnly},
	"SQLite locked by another process":              {part: "store", quick: true, set: fileLocked},
	"service stopped (SIGSTOP)":                     {set: serviceStopped},
}

// A server is a broker in a process of its own.
type server struct {
	*process
	t       *testing.T
	program string
	environ []string
}

// newServer starts a broker, whose URL it returns.
func newServer(t *testing.T, program string) (_ *server, url string) {
	t.Helper()
	port, err := freeport.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, program: program, environ: []string{brokerDir + "=" + t.TempDir(), brokerPort + "=" + strconv.Itoa(port)}}
	s.begin()
	return s, program + "://127.0.0.1:" + strconv.Itoa(port)
}

// begin starts the broker, where it was before.
func (s *server) begin() {
	s.t.Helper()
	s.process = start(s.t, s.program, s.environ...)
	s.says("listening", time.Time{}, time.Minute)
}

// away has a broker die, and start again.
func away(b *server) (harm, repair func(*site)) {
	return func(*site) { b.signal(syscall.SIGKILL); b.ends(time.Minute) }, func(*site) { b.begin() }
}

// frozen has a broker stop, and go on.
func frozen(b *server) (harm, repair func(*site)) {
	return func(*site) { b.signal(syscall.SIGSTOP) }, func(*site) { b.signal(syscall.SIGCONT) }
}

func brokerFault(program string, kind func(*server) (harm, repair func(*site))) func(*testing.T) fault {
	return func(t *testing.T) fault {
		t.Helper()
		b, url := newServer(t, program)
		f := fault{environ: []string{"TIMER_BROKER=" + program, "TIMER_BROKER_URL=" + url, "TIMER_DB_PATH=" + database(t.TempDir())}}
		f.harm, f.repair = kind(b)
		return f
	}
}

// refuse has a proxy end all connections, and take no more.
func refuse(p *proxy.Proxy) (harm, repair func(*site)) {
	return func(*site) { p.Refuse(); p.Reset() }, func(*site) { p.Pass() }
}

// silence has a proxy pass nothing on. Connections that lost something stay dead after
// the repair, so that new ones have to be made.
func silence(p *proxy.Proxy) (harm, repair func(*site)) {
	return func(*site) { p.Drop(proxy.ToServer, proxy.ToClient) }, func(*site) { p.Pass() }
}

func rabbitFault(kind func(*proxy.Proxy) (harm, repair func(*site))) func(*testing.T) fault {
	return func(t *testing.T) fault {
		t.Helper()
		port, err := freeport.Find(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		server, err := rabbitd.Start(t.Context(), t.TempDir(), port)
		if errors.Is(err, rabbitd.ErrNotInstalled) {
			missing(t, "%v", err)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Kill)
		p := proxy.New(proxy.TCP(address(t, server.URL())))
		at, err := p.Listen()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		f := fault{environ: []string{
			"TIMER_BROKER=rabbitmq", "TIMER_BROKER_URL=" + strings.Replace(server.URL(), address(t, server.URL()), at, 1), "TIMER_DB_PATH=" + database(t.TempDir()),
		}}
		f.harm, f.repair = kind(p)
		return f
	}
}

func postgresFault(kind func(*proxy.Proxy) (harm, repair func(*site))) func(*testing.T) fault {
	return func(t *testing.T) fault {
		t.Helper()
		p := newPostgres(t)
		f := fault{environ: []string{"TIMER_BROKER=gochannel", p.environ()}}
		f.harm, f.repair = kind(p.proxy)
		return f
	}
}

func diskFull(t *testing.T) fault {
	t.Helper()
	d := mount(t)
	return fault{
		environ: []string{"TIMER_BROKER=gochannel", "TIMER_DB_PATH=" + database(d.dir)},
		harm:    func(*site) { d.fill() },
		repair:  func(*site) { d.free() },
	}
}

// diskReadOnly has the kernel find an error in a file system, and stop writing to it,
// as it does when a disk fails. That ends with the mount: who repairs it has to stop
// the service meanwhile.
func diskReadOnly(t *testing.T) fault {
	t.Helper()
	if os.Getuid() != 0 {
		missing(t, "only root can mount a file system")
	}
	run := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(context.WithoutCancel(t.Context()), name, args...).CombinedOutput(); err != nil {
			missing(t, "%s %v: %v: %s", name, args, err, out)
		}
	}
	image, dir := filepath.Join(t.TempDir(), "image"), t.TempDir()
	run("truncate", "--size", "64M", image)
	run("mkfs.ext4", "-q", image)
	mount := func() { t.Helper(); run("mount", "-o", "loop,errors=remount-ro", image, dir) }
	mount()
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) }) // of the last one
	return fault{
		environ: []string{"TIMER_BROKER=gochannel", "TIMER_DB_PATH=" + database(dir)},
		harm: func(*site) {
			mounts, err := os.ReadFile("/proc/mounts")
			if err != nil {
				t.Fatal(err)
			}
			before, _, _ := strings.Cut(string(mounts), " "+dir+" ")
			device := filepath.Base(before[strings.LastIndexByte(before, '\n')+1:])
			if err := os.WriteFile(filepath.Join("/sys/fs/ext4", device, "trigger_fs_error"), []byte("a test"), 0); err != nil {
				missing(t, "make a file system fail: %v", err)
			}
		},
		repair: func(s *site) {
			s.service.signal(syscall.SIGTERM)
			s.service.ends(time.Minute)
			run("umount", dir)
			mount()
			s.start()
		},
	}
}

func fileLocked(t *testing.T) fault {
	t.Helper()
	dir := t.TempDir()
	var other *process
	return fault{
		environ: []string{"TIMER_BROKER=gochannel", "TIMER_DB_PATH=" + database(dir)},
		harm: func(*site) {
			other = start(t, "locker", lockFile+"="+database(dir))
			other.says("locked", time.Time{}, time.Minute)
		},
		repair: func(*site) {
			other.signal(syscall.SIGKILL)
			other.ends(time.Minute)
		},
	}
}

// serviceStopped stops the process itself, and has it go on.
func serviceStopped(t *testing.T) fault {
	t.Helper()
	return fault{
		environ: []string{"TIMER_BROKER=gochannel", "TIMER_DB_PATH=" + database(t.TempDir())},
		harm:    func(s *site) { s.service.signal(syscall.SIGSTOP) },
		repair:  func(s *site) { s.service.signal(syscall.SIGCONT) },
	}
}
