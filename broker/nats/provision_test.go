package nats_test

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/nats"
)

const (
	commands = "timer.commands"
	role     = "timer-service"
	durable  = "timer-service_timer-commands"
)

func objects(changes []broker.Change) string {
	all := make([]string, len(changes))
	for i, c := range changes {
		all[i] = c.Object
	}
	return strings.Join(all, ", ")
}

func TestProvisionMakesWhatIsMissingOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t)
		_, js := client(t, e)
		const all = "stream svc, consumer " + durable + ", stream svc-owner"
		for i, tt := range []struct {
			dry  bool
			want string
		}{{true, all}, {true, all}, {false, all}, {false, ""}, {true, ""}} {
			changes, err := nats.New(nats.Options{Server: e}, quiet).Provision(t.Context(), tt.dry)
			if err != nil || objects(changes) != tt.want {
				t.Errorf("call %d: %v, %v; want %q", i, changes, err, tt.want)
			}
			for _, c := range changes {
				if c.Detail == "" {
					t.Errorf("%s has no detail", c.Object)
				}
			}
			if _, err := js.Stream(t.Context(), "svc"); (err == nil) != (i >= 2) {
				t.Errorf("call %d: the stream: %v", i, err)
			}
		}
		must(t, js.DeleteConsumer(t.Context(), "svc", durable))
		changes, err := nats.New(nats.Options{Server: e}, quiet).Provision(t.Context(), false)
		if err != nil || objects(changes) != "consumer "+durable {
			t.Errorf("without the consumer: %v, %v", changes, err)
		}
		b := ready(t, nats.Options{Server: e, Verify: true})
		messages := subscribe(t, b, role, commands)
		send(t, b, commands, "it works")
		expect(t, messages, "it works")
	})
}

// send publishes a message to a subject.
func send(t testing.TB, b *nats.Broker, subject, body string) {
	t.Helper()
	must(t, try(b, subject, message.NewMessage("", []byte(body))))
}

func TestProvisionRefusesWhatDoesNotFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t)
		_, js := client(t, e)
		stream := jetstream.StreamConfig{Name: "svc", Subjects: []string{"svc.>", commands}, MaxAge: 12 * time.Hour}
		makeStream(t, js, stream)
		for _, dry := range []bool{true, false} {
			changes, err := nats.New(nats.Options{Server: e}, quiet).Provision(t.Context(), dry)
			if err == nil || !strings.Contains(err.Error(), "max_age is 12h0m0s") || len(changes) > 0 {
				t.Errorf("Provision: %v, %v", changes, err)
			}
		}
		lower := nats.Options{Server: e, MinAge: 12 * time.Hour}
		if _, err := nats.New(lower, quiet).Provision(t.Context(), true); err != nil {
			t.Errorf("with a lower floor: %v", err)
		}
		makeConsumer(t, js, jetstream.ConsumerConfig{Durable: durable, FilterSubject: commands, MaxDeliver: 5})
		_, err := nats.New(lower, quiet).Provision(t.Context(), false)
		fails(t, err, "max_deliver is 5")
	})
}

// TestProvisionSaysWhyItMakesNoStream has a user who may make nothing, and a server with
// too little space.
func TestProvisionSaysWhyItMakesNoStream(t *testing.T) {
	t.Parallel()
	small := guarded(t, &server.Options{JetStreamMaxStore: 2 << 30})
	for says, opt := range map[string]nats.Options{
		"STREAM.CREATE.svc":          user(documented(t), "service"),
		"set nats_max_bytes to less": {URL: small.ClientURL()},
	} {
		_, err := nats.New(opt, quiet).Provision(t.Context(), false)
		fails(t, err, says)
	}
}

func TestVerifyMakesNothingAndTellsWhatIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t)
		_, js := client(t, e)
		b := nats.New(nats.Options{Server: e, Verify: true}, quiet)
		ended := running(t.Context(), b)
		messages := subscribe(t, b, role, commands)
		missing := func(what string) {
			t.Helper()
			awaitNotReady(t, b, what, "timer-service provision")
		}
		missing("stream svc")
		time.Sleep(time.Minute)
		missing("stream svc")
		makeStream(t, js, jetstream.StreamConfig{Name: "svc", Subjects: []string{"svc.>", commands}})
		missing("consumer " + durable)
		send(t, b, commands, "one") // what is there can be used
		makeConsumer(t, js, jetstream.ConsumerConfig{Durable: durable, FilterSubject: commands, MaxDeliver: 5})
		awaitNotReady(t, b, "max_deliver is 5")
		edit(t, js, func(c *jetstream.ConsumerConfig) { c.MaxDeliver = -1 })
		expect(t, messages, "one")
		awaitReady(t, b)

		must(t, js.DeleteStream(t.Context(), "svc"))
		missing("svc")
		time.Sleep(time.Minute)
		if _, err := js.Stream(t.Context(), "svc"); err == nil {
			t.Error("the stream was made again")
		}
		provision(t, e)
		fails(t, <-ended, "made again")
	})
}

// TestServerThatIsTooOld connects with something that says it is version 2.8.
func TestServerThatIsTooOld(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(conn, "INFO {\"server_id\":\"x\",\"version\":\"2.8.4\",\"max_payload\":1048576,\"headers\":true,\"jetstream\":true}\r\n")
			go func() {
				defer conn.Close()
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					if lines.Text() == "PING" {
						fmt.Fprint(conn, "PONG\r\n")
					}
				}
			}()
		}
	}()
	b := nats.New(nats.Options{URL: "nats://" + l.Addr().String()}, quiet)
	for what, err := range map[string]error{"Run": b.Run(t.Context()), "Provision": func() error { _, err := b.Provision(t.Context(), true); return err }()} {
		if err == nil || !strings.Contains(err.Error(), "version 2.8.4; at least 2.9 is needed") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
