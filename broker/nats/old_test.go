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

// external returns the URL of a server that the tests did not start.
func external(t testing.TB) string {
	t.Helper()
	address := os.Getenv("TIMER_TEST_NATS")
	if address == "" && os.Getenv("TIMER_TEST_REQUIRE") != "" {
		t.Fatal("TIMER_TEST_NATS is not set")
	}
	if address == "" {
		t.Skip("SKIPPED: set TIMER_TEST_NATS to the URL of a NATS server with JetStream, any version from 2.9, to test against it")
	}
	return address
}

func openExternal(t testing.TB) brokertest.Server {
	return openAt(t, ownNames(external(t)))
}

// ownNames returns options with a stream and topics of their own.
func ownNames(address string) nats.Options {
	prefix := "test-" + name()
	return nats.Options{
		URL:      address,
		Stream:   prefix,
		MaxBytes: 64 << 20,
		Routing: broker.Routing{
			Commands:    prefix + ".commands",
			Events:      prefix + ".{tenant}.events",
			DeadLetters: prefix + ".{tenant}.dlq",
			Wildcard:    "*",
		},
	}
}

// openAt uses a server, and removes the streams afterwards.
func openAt(t testing.TB, opt nats.Options) brokertest.Server {
	t.Helper()
	prefix, address := opt.Stream, opt.URL
	t.Cleanup(func() {
		_, js := dial(t, address)
		err := js.DeleteStream(context.Background(), prefix)
		_ = js.DeleteStream(context.Background(), prefix+"-owner") // if there is one
		if err != nil {
			t.Errorf("remove the stream %s: %v", prefix, err)
		}
	})
	return destructible(t, brokertest.Server{Broker: func() broker.Broker { return nats.New(opt, quiet) }}, prefix, address)
}

func TestContractOnAnotherServer(t *testing.T) {
	t.Parallel()
	if os.Getenv("TIMER_TEST_REQUIRE") != "" && longtest.Wanted() {
		t.Skip("TestContractOnAnotherProcess, which has to run then, does this and more")
	}
	conn, _ := dial(t, external(t))
	f := features
	f.FakeTime, f.Repeats = false, repeats(t, conn.ConnectedServerVersion())
	brokertest.Run(t, f, openExternal)
}

// repeats reports whether a server of a version has a fault that 2.10.18 repaired:
// if a message was returned while no client asks for messages, the server
// takes a step back in the stream and delivers the newest message again, acked
// or not (consumer.go, "We will redo this one").
func repeats(t testing.TB, version string) bool {
	t.Helper()
	var major, minor, patch int
	if _, err := fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch); err != nil {
		t.Fatalf("version %q: %v", version, err)
	}
	return major < 2 || major == 2 && (minor < 10 || minor == 10 && patch < 18)
}

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
