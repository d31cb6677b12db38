package nats_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/brokertest"
	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/internal/freeport"
	"github.com/event-service-agent/timer-service/internal/longtest"
)

// openProcess starts a server as a process of its own, which Stop kills.
func openProcess(t testing.TB, path string) brokertest.Server {
	t.Helper()
	port, dir := freePort(t), t.TempDir()
	address := fmt.Sprintf("nats://127.0.0.1:%d", port)
	var process *exec.Cmd
	start := func() {
		process = exec.Command(path, "-a", "127.0.0.1", "-p", strconv.Itoa(port), "-js", "-sd", dir)
		must(t, process.Start())
		until(t, "the server", func() bool {
			conn, err := new(net.Dialer).DialContext(context.Background(), "tcp", address[len("nats://"):])
			if err == nil {
				conn.Close()
			}
			return err == nil
		})
	}
	stop := func() {
		_ = process.Process.Kill()
		_ = process.Wait() // it was killed
	}
	start()
	t.Cleanup(func() { stop() })
	return destructible(t, brokertest.Server{
		Broker: func() broker.Broker { return nats.New(nats.Options{URL: address, MaxBytes: 64 << 20}, quiet) },
		Stop:   stop,
		Start:  start,
	}, "svc", address)
}

// freePort returns a port on which a server can start again after it was stopped.
func freePort(t testing.TB) int {
	t.Helper()
	port, err := freeport.Find(context.Background())
	must(t, err)
	return port
}

// TestContractOnAnotherProcess kills a server that is installed: an old one.
func TestContractOnAnotherProcess(t *testing.T) {
	t.Parallel()
	longtest.Skip(t, "starts and kills server processes")
	external(t) // a machine with a server that runs has the program
	path := os.Getenv("TIMER_TEST_NATS_SERVER")
	if path == "" {
		path = "nats-server"
	}
	path, err := exec.LookPath(path)
	if err != nil && os.Getenv("TIMER_TEST_REQUIRE") != "" {
		t.Fatal(err)
	}
	if err != nil {
		t.Skipf("SKIPPED: set TIMER_TEST_NATS_SERVER to the path of a nats-server, any version from 2.9, to test against it (%v)", err)
	}
	out, err := exec.Command(path, "--version").Output()
	t.Logf("%s (%v)", out, err)
	_, version, _ := strings.Cut(strings.TrimSpace(string(out)), " v")
	f := features
	f.FakeTime, f.Repeats = false, repeats(t, version)
	brokertest.Run(t, f, func(t testing.TB) brokertest.Server { return openProcess(t, path) })
}
