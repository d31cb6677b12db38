package interop_test

import (
	"bufio"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestClientsOfTheDocs runs the programs of docs/clients/node.md.
func TestClientsOfTheDocs(t *testing.T) {
	t.Parallel()
	t.Run("nats", func(t *testing.T) {
		t.Parallel()
		p := newPrograms(t, "nats.mjs")
		owner := serveIn(t, p.dir, "TIMER_BROKER=nats", "TIMER_BROKER_URL=", "TIMER_NATS_PORT=0")
		u, err := url.Parse(owner)
		if err != nil {
			t.Fatal(err)
		}
		p.broker = "nats://" + u.Host // without the secret
		c := connectNATS(t, owner)
		p.run(func(body string) { c.publish(t, "svc.acme.serviceCall", body, nil) })
	})
	t.Run("kafka", func(t *testing.T) {
		t.Parallel()
		p := newPrograms(t, "kafka.mjs")
		p.broker = serveKafkaIn(t, p.dir)
		c := kafkaWire{p.broker}
		p.run(func(body string) { c.publish(t, "service.events", body, nil) })
	})
	t.Run("rabbitmq", func(t *testing.T) {
		t.Parallel()
		needRabbitMQ(t)
		p := newPrograms(t, "rabbitmq.mjs")
		r := serveRabbitMQIn(t, p.dir, "acme")
		p.broker = r.url
		// Others use the server, too, so the names are not the default ones.
		p.rename("timer.commands", r.commands, "svc.direct", r.exchange, "svc.${tenant}.q", strings.ReplaceAll(r.events, "{tenant}", "${tenant}"))
		c := connectRabbitMQ(t, r)
		p.run(func(body string) { c.publish(t, strings.ReplaceAll(r.events, "{tenant}", "acme"), body) })
	})
}

// programs are those of the docs for one broker.
type programs struct {
	*testing.T
	node, name string
	dir        string // of the programs, and of the service's database
	broker     string // address
}

var fileBlock = regexp.MustCompile("(?s)```js\n// ([a-z]+\\.mjs)\n(.*?)```")

// newPrograms writes the programs of the docs into a folder that has what they import.
func newPrograms(t *testing.T, name string) *programs {
	t.Helper()
	p := &programs{T: t, node: need(t, "node"), name: name}
	p.dir = folder(t)
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "clients", "node.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := fileBlock.FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 4 {
		t.Fatalf("docs/clients/node.md has %d files", len(blocks))
	}
	for _, block := range blocks {
		write(t, p.dir, block[1], block[2])
	}
	return p
}

// rename replaces names in the program, each of which must be there.
func (p *programs) rename(pairs ...string) {
	p.Helper()
	text, err := os.ReadFile(filepath.Join(p.dir, p.name))
	if err != nil {
		p.Fatal(err)
	}
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(string(text), pairs[i]) {
			p.Fatalf("%s does not name %s", p.name, pairs[i])
		}
	}
	write(p.T, p.dir, p.name, strings.NewReplacer(pairs...).Replace(string(text)))
}

// run schedules, cancels and listens. Publish publishes where the events are.
func (p *programs) run(publish func(body string)) {
	listener := p.listen()
	p.call("schedule", "order-1", "1")
	listener.await("order-1 is due")

	p.call("schedule", "order-2", "3600")
	p.call("cancel", "order-2")
	p.becomes("order-2", "Canceled")

	done, err := os.ReadDir(filepath.Join(p.dir, "done"))
	if err != nil || len(done) != 1 {
		p.Fatalf("one event was remembered as %v, %v", done, err)
	}
	publish("no JSON")
	publish(`{"stream":"svc","seq":1}`)
	publish(fmt.Sprintf(`{"id":%q,"type":"DueTimeReached","tenantId":"acme","payload":{"serviceCallId":"order-1"}}`, done[0].Name()))
	listener.await("order-1 again, dropped")
	listener.end()

	p.call("schedule", "order-3", "0") // comes while the program is away
	p.becomes("order-3", "Reached")
	listener = p.listen()
	listener.await("order-3 is due")
	listener.end()
}

// command returns a run of the program.
func (p *programs) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(p.Context(), p.node, append([]string{p.name}, args...)...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "BROKER="+p.broker, "KAFKAJS_NO_PARTITIONER_WARNING=1")
	return cmd
}

func (p *programs) call(args ...string) {
	p.Helper()
	if out, err := p.command(args...).CombinedOutput(); err != nil {
		p.Fatalf("node %s %v: %v\n%s", p.name, args, err, out)
	}
}

// becomes waits until the service has a timer in a state.
func (p *programs) becomes(call, state string) {
	p.Helper()
	deadline := time.After(receiveTimeout)
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		cmd := exec.CommandContext(p.Context(), build(p.T), "get", "acme", call)
		cmd.Env = append(environ(), "TIMER_DB_PATH="+filepath.Join(p.dir, "timers.db"))
		out, err := cmd.CombinedOutput()
		if err == nil && strings.Contains(string(out), state) {
			return
		}
		select {
		case <-again.C:
		case <-deadline:
			p.Fatalf("get acme %s: %v\n%s", call, err, out)
		}
	}
}

// A listener is a program that waits for events.
type listener struct {
	*programs
	cmd   *exec.Cmd
	lines chan string // what it prints
}

func (p *programs) listen() *listener {
	p.Helper()
	l := &listener{p, p.command("listen"), make(chan string)}
	out, err := l.cmd.StdoutPipe()
	if err != nil {
		p.Fatal(err)
	}
	l.cmd.Stderr = l.cmd.Stdout
	if err := l.cmd.Start(); err != nil {
		p.Fatal(err)
	}
	go func() {
		defer close(l.lines)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			l.lines <- scanner.Text()
		}
	}()
	return l
}

// await reads lines up to one that begins with a text. Work is done once.
func (l *listener) await(text string) {
	l.Helper()
	for deadline := time.After(receiveTimeout); ; {
		select {
		case line, ok := <-l.lines:
			switch {
			case !ok:
				l.Fatalf("the program ended before %q", text)
			case strings.HasPrefix(line, text):
				return
			case strings.HasSuffix(line, " again, dropped"): // its ack was not sent when the program was killed
				continue
			}
			l.Errorf("%q is printed before %q", line, text)
		case <-deadline:
			l.Fatalf("%q was not printed", text)
		}
	}
}

// end kills the program.
func (l *listener) end() {
	l.Helper()
	if err := l.cmd.Process.Kill(); err != nil {
		l.Fatal(err)
	}
	for line := range l.lines {
		l.Errorf("%q is printed at the end", line)
	}
	_ = l.cmd.Wait() // it was killed
}
