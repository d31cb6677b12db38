// Package faults_test harms what the service stands on, from outside: the
// network, the broker, the disk, the database file. The service runs as it
// does in production, as a process of its own. Whether it kept its promises is
// judged by what a client of the broker observed.
package faults_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server/ats"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/event-service-agent/timer-service/broker/nats/embedded"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/service"
)

// asProgram makes the test binary behave as another program.
const asProgram = "TIMER_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	switch os.Getenv(asProgram) {
	case "service":
		os.Exit(serve())
	case "locker":
		os.Exit(hold())
	case "nats", "kafka":
		os.Exit(beBroker(os.Getenv(asProgram)))
	}
	ats.Register() // else the broker's clock of access times belongs to the first bubble
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil { // they wait most of the time
		panic(err)
	}
	os.Exit(m.Run())
}

// serve is the service, configured by its environment. At SIGUSR1 it prints how
// large it is.
func serve() int {
	cfg, err := config.Load(nil, os.Environ(), "")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	go func() {
		for range asked {
			debug.FreeOSMemory()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			fmt.Printf("size %d %d\n", runtime.NumGoroutine(), m.HeapAlloc)
		}
	}()
	if err := service.Run(ctx, cfg, os.Stdout, slog.New(slog.NewTextHandler(os.Stderr, nil))); err != nil {
		fmt.Fprintln(os.Stderr, "ended:", err)
		return 1
	}
	return 0
}

// The environment of a broker in a process of its own.
const (
	brokerDir  = "BROKER_DIR"
	brokerPort = "BROKER_PORT"
)

// beBroker is a broker until it is killed.
func beBroker(kind string) int {
	dir := os.Getenv(brokerDir)
	port, err := strconv.Atoi(os.Getenv(brokerPort))
	switch {
	case err != nil:
	case kind == "kafka":
		_, err = kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(port), kfake.DataDir(dir))
	default:
		_, err = embedded.Start(embedded.Options{StoreDir: dir, Port: port, PortOnly: true, SyncLazily: true}, quiet)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("listening")
	select {}
}

// grace is what a busy machine may take on top of a limit. Without the watch for
// the file it takes more than that and the limit together.
const grace = 5 * time.Second

// missing skips the test, or fails it if $TIMER_TEST_REQUIRE is set.
func missing(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("TIMER_TEST_REQUIRE") != "" {
		t.Fatalf(format, args...)
	}
	t.Skipf("SKIPPED, NOTHING IS PROVEN: "+format, args...)
}

// takesLong skips the test if time is short.
func takesLong(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED, NOTHING IS PROVEN: it takes half a minute or longer")
	}
}
