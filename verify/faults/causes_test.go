package faults_test

import (
	"context"
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver

	"github.com/event-service-agent/timer-service/internal/proxy"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/verify/crash"
	"github.com/event-service-agent/timer-service/verify/internal/harness"
)

// causes are faults of all that the service stands on, by name.
var causes = map[string]cause{
	"NATS killed":                                   {part: "broker", quick: true, set: brokerFault(crash.NATS, away)},
	"NATS frozen (SIGSTOP)":                         {part: "broker", set: brokerFault(crash.NATS, frozen)},
	"Kafka killed":                                  {part: "broker", set: brokerFault(crash.KafkaHere(), away)},
	"Kafka frozen (SIGSTOP)":                        {part: "broker", set: brokerFault(crash.KafkaHere(), frozen)},
	"RabbitMQ away":                                 {part: "broker", set: rabbitFault(refuse)},
	"RabbitMQ with dead connections":                {part: "broker", set: rabbitFault(silence)},
	"PostgreSQL away":                               {part: "store", set: postgresFault(refuse)},
	"PostgreSQL with dead connections":              {part: "store", set: postgresFault(silence)},
	"PostgreSQL that is set read-only":              {part: "store", set: postgresReadOnly},
	"SQLite on a full file system":                  {part: "store", quick: true, set: diskFull},
	"SQLite on a file system that became read-only": {part: "store", set: diskReadOnly},
	"SQLite locked by another process":              {part: "store", quick: true, set: fileLocked},
	"service stopped (SIGSTOP)":                     {set: serviceStopped},
}

func brokerFault(kind crash.Kind, how func(*harness.Broker) (harm, repair func(*service))) func(*testing.T) fault {
	return func(t *testing.T) fault {
		t.Helper()
		b := harness.StartBroker(t, kind)
		f := fault{environ: append(b.Settings(), inFile(t.TempDir()))}
		f.harm, f.repair = how(b)
		return f
	}
}

func rabbitFault(how func(*proxy.Proxy) (harm, repair func(*service))) func(*testing.T) fault {
	return func(t *testing.T) fault {
		t.Helper()
		p, at := proxied(t, harness.StartBroker(t, crash.RabbitMQ).URL())
		f := fault{environ: []string{"TIMER_BROKER=rabbitmq", "TIMER_BROKER_URL=" + at, inFile(t.TempDir())}}
		f.harm, f.repair = how(p)
		return f
	}
}

func postgresFault(how func(*proxy.Proxy) (harm, repair func(*service))) func(*testing.T) fault {
	return func(t *testing.T) fault {
		t.Helper()
		p, setting := newPostgres(t)
		f := fault{environ: []string{"TIMER_BROKER=gochannel", setting}}
		f.harm, f.repair = how(p)
		return f
	}
}

// postgresReadOnly has the server take no writes, as a person sets an old primary after a failover.
func postgresReadOnly(t *testing.T) fault {
	t.Helper()
	_, setting := newPostgres(t)
	db, err := sql.Open("pgx", strings.TrimPrefix(setting, "TIMER_DB_URL="))
	harness.Must(t, err)
	t.Cleanup(func() { db.Close() })
	set := func(how string) {
		for _, text := range []string{`ALTER SYSTEM ` + how, `SELECT pg_reload_conf()`} {
			_, err := db.ExecContext(context.WithoutCancel(t.Context()), text)
			harness.Must(t, err)
		}
	}
	return fault{
		environ: []string{"TIMER_BROKER=gochannel", setting},
		harm:    func(*service) { set(`SET default_transaction_read_only = on`) },
		repair:  func(*service) { set(`RESET default_transaction_read_only`) },
	}
}

func diskFull(t *testing.T) fault {
	t.Helper()
	d := mount(t)
	return fault{
		environ: []string{"TIMER_BROKER=gochannel", inFile(d.dir)},
		harm:    func(*service) { d.fill() },
		repair:  func(*service) { d.free() },
	}
}

// diskReadOnly has the kernel find an error in a file system, and stop writing to it,
// as it does when a disk fails. That ends with the mount: who repairs it has to stop
// the service meanwhile.
func diskReadOnly(t *testing.T) fault {
	t.Helper()
	if os.Getuid() != 0 {
		harness.Missing(t, "only root can mount a file system")
	}
	run := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(context.WithoutCancel(t.Context()), name, args...).CombinedOutput(); err != nil {
			harness.Missing(t, "%s %v: %v: %s", name, args, err, out)
		}
	}
	image, dir := filepath.Join(t.TempDir(), "image"), t.TempDir()
	run("truncate", "--size", "64M", image)
	run("mkfs.ext4", "-q", image)
	mount := func() { t.Helper(); run("mount", "-o", "loop,errors=remount-ro", image, dir) }
	mount()
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) }) // of the last one
	return fault{
		environ: []string{"TIMER_BROKER=gochannel", inFile(dir)},
		harm: func(*service) {
			mounts, err := os.ReadFile("/proc/mounts")
			harness.Must(t, err)
			before, _, _ := strings.Cut(string(mounts), " "+dir+" ")
			device := filepath.Base(before[strings.LastIndexByte(before, '\n')+1:])
			if err := os.WriteFile(filepath.Join("/sys/fs/ext4", device, "trigger_fs_error"), []byte("a test"), 0); err != nil {
				harness.Missing(t, "make a file system fail: %v", err)
			}
		},
		repair: func(s *service) {
			_ = s.Stop(time.Minute) // it can't end cleanly
			run("umount", dir)
			mount()
			s.start()
		},
	}
}

func fileLocked(t *testing.T) fault {
	t.Helper()
	dir := t.TempDir()
	var lock *sql.Tx
	return fault{
		environ: []string{"TIMER_BROKER=gochannel", inFile(dir)},
		harm: func(*service) {
			db, err := sql.Open("sqlite", sqlite.DSN(database(dir)))
			harness.Must(t, err)
			t.Cleanup(func() { db.Close() })
			lock, err = db.BeginTx(context.WithoutCancel(t.Context()), nil) // which locks, see sqlite.DSN
			harness.Must(t, err)
		},
		repair: func(*service) { harness.Must(t, lock.Rollback()) },
	}
}

// serviceStopped stops the process itself, and has it go on.
func serviceStopped(t *testing.T) fault {
	t.Helper()
	return fault{
		environ: []string{"TIMER_BROKER=gochannel", inFile(t.TempDir())},
		harm:    func(s *service) { s.signal(syscall.SIGSTOP) },
		repair:  func(s *service) { s.signal(syscall.SIGCONT) },
	}
}
