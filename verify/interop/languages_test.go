package interop_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/event-service-agent/timer-service/verify/crash"
	"github.com/event-service-agent/timer-service/verify/internal/harness"
)

// clients is the folder of the programs in Java and Python to which docs/clients.md leads, with
// the lists of the libraries that they need. Those in TypeScript are in a folder of their package.
var (
	clients            = filepath.Join("..", "..", "examples", "clients")
	typeScriptPrograms = filepath.Join("..", "..", "clients", "typescript", "examples")
)

// languages are the programs, by their broker. Those of one broker run one after the other.
var languages = map[string]struct {
	open     func(t *testing.T, dir string) site
	programs []string
}{
	"kafka":     {openKafka, []string{"KafkaTimer.java", "kafka.mts", "kafka_timer.py"}},
	"nats":      {openNATS, []string{"NatsTimer.java", "nats.mts", "nats_timer.py"}},
	"rabbitmq":  {openRabbitMQ, overRabbitMQ},
	"rabbitmq4": {openRabbitMQ4, overRabbitMQ},
}

var overRabbitMQ = []string{"RabbitTimer.java", "rabbitmq.mts", "rabbitmq_timer.py"}

// interpreters say how to run a program, and by which name it consumes, by the end of its file.
var interpreters = map[string]struct {
	consumer string
	prepare  func(t *testing.T, file string) (command []string)
}{
	".java": {"orders-java", java},
	".mts":  {"orders-node", typeScript},
	".py":   {"orders-python", python},
}

// A site is a broker with a service, and a plain client of that broker.
type site struct {
	address string                          // of the broker, as programs have it
	version string                          // of the broker
	publish func(t *testing.T, body string) // publishes an event of the tenant acme

	// unacked returns how many events a consumer has not acked. A broker that counts only
	// the events that wait for a consumer is asked when the program has ended, which may
	// have kept it from acking the last one.
	unacked     func(t *testing.T, consumer string) int
	onlyWaiting bool
}

// TestProgramsOfTheDocs runs the programs to which docs/clients.md leads. Each schedules a
// timer and prints its event, cancels another one, and handles an event that comes twice once.
func TestProgramsOfTheDocs(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(clients, "*_timer.py"))
	for _, pattern := range []string{filepath.Join(clients, "*.java"), filepath.Join(typeScriptPrograms, "[^h]*.mts")} { // http.mts has a test of its own
		more, failed := filepath.Glob(pattern)
		if failed != nil || err != nil {
			t.Fatal(failed, err)
		}
		files = append(files, more...)
	}
	tried := make(map[string]bool)
	for name, l := range languages {
		for _, file := range l.programs {
			tried[file] = true
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := l.open(t, dir)
			for _, file := range l.programs {
				t.Run(file, func(t *testing.T) {
					t.Logf("broker: %s %s", name, s.version)
					s.run(t, dir, file)
				})
			}
		})
	}
	if len(files) != len(tried) {
		t.Errorf("there are %d programs, and %d are run", len(files), len(tried))
	}
}

// run runs a program until it has done everything.
func (s site) run(t *testing.T, dir, file string) {
	t.Helper()
	how := interpreters[filepath.Ext(file)]
	command := how.prepare(t, file)
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "BROKER="+s.address)
	p, err := crash.StartCommand(cmd, io.Discard)
	harness.Must(t, err)
	defer func() {
		_ = p.Kill() // fails only if it has ended
		if t.Failed() {
			t.Logf("the program printed:\n%s", p.Last(100))
		}
	}()

	var order string
	await(t, p, "an event of its timer", func(lines []string) bool {
		i := slices.IndexFunc(lines, isDue.MatchString)
		if i >= 0 {
			order = isDue.FindStringSubmatch(lines[i])[1]
		}
		return i >= 0
	})
	awaitState(t, dir, order, "Reached")
	awaitState(t, dir, order+"-paid", "Canceled")

	again, last := "order-"+uuid.NewString(), "order-"+uuid.NewString()
	body := reached(again)
	for _, event := range []string{body, body, reached(last)} {
		s.publish(t, event)
	}
	await(t, p, "the last event", func(lines []string) bool { return slices.Contains(lines, last+" is due") })
	for _, call := range []string{order, again} {
		if n := count(p, call+" is due"); n != 1 {
			t.Errorf("the event of %s was handled %d times, of two with one id: %s", call, n, p.Last(20))
		}
	}

	left := 0
	if s.onlyWaiting {
		left = 1
		harness.Must(t, p.Kill())
	}
	await(t, p, "acks of what was handled", func([]string) bool { return s.unacked(t, how.consumer) <= left })
}

var isDue = regexp.MustCompile(`^(order-[0-9a-f-]{36}) is due$`)

// reached returns an event that no timer has, on which the service has no opinion.
func reached(call string) string {
	now := time.Now()
	return fmt.Sprintf(`{"id":%q,"type":"DueTimeReached","tenantId":"acme","aggregateId":%q,"timestampMs":%d,"payload":{"tenantId":"acme","serviceCallId":%q,"dueAt":%q,"reachedAt":%[5]q}}`,
		uuid.NewString(), call, now.UnixMilli(), call, now.UTC().Format("2006-01-02T15:04:05.000Z"))
}

// texts returns the lines that a program has printed.
func texts(p *crash.Process) []string {
	var all []string
	for _, line := range p.Lines() {
		all = append(all, strings.TrimSpace(line.Text))
	}
	return all
}

func count(p *crash.Process, line string) int {
	return len(slices.DeleteFunc(texts(p), func(l string) bool { return l != line }))
}

// await waits until a program has come to a state, by the lines that it has printed.
func await(t *testing.T, p *crash.Process, what string, happened func(lines []string) bool) {
	t.Helper()
	killed := p.HasEnded()
	harness.Until(t, what, 2*receiveTimeout, func() bool { // a group of Kafka takes long to begin
		if p.HasEnded() && !killed && !happened(texts(p)) {
			t.Fatalf("the program ended with %v before %s:\n%s", p.Err, what, p.Last(100))
		}
		return happened(texts(p))
	})
}

// awaitState waits until the service has brought a timer into a state.
func awaitState(t *testing.T, dir, call, state string) {
	t.Helper()
	harness.Until(t, call+" to be "+state, receiveTimeout, func() bool {
		cmd := exec.CommandContext(t.Context(), harness.Binary(t), "get", "acme", call)
		cmd.Env = append(crash.Environ(), "TIMER_DB_PATH="+filepath.Join(dir, "timers.db"))
		out, err := cmd.CombinedOutput()
		return err == nil && strings.Contains(string(out), state)
	})
}

// TestShell runs the program that uses the API by curl.
func TestShell(t *testing.T) {
	t.Parallel()
	need(t, "curl")
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, need(t, "bash"), filepath.Join(clients, "http.sh"))
	cmd.Env = append(os.Environ(), "API="+api(serveIn(t, dir, embedded...)))
	cmd.WaitDelay = time.Second // curl may outlive its shell
	out, err := cmd.CombinedOutput()
	call := regexp.MustCompile(`(order-[0-9-]+) is due`).FindSubmatch(out)
	if err != nil || call == nil {
		t.Fatalf("the program printed no event, and ended with %v\n%s", err, out)
	}
	awaitState(t, dir, string(call[1]), "Reached")
}

// TestTestsOfTheDocs runs the tests to which docs/testing.md leads. Each starts a service with a
// test clock, and has three hours pass.
func TestTestsOfTheDocs(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(t *testing.T) (command []string){
		"TypeScript": func(t *testing.T) []string {
			return typeScript(t, filepath.Join("..", "..", "..", "examples", "testclock", "reminder.test.mts"))
		},
		"Python": func(t *testing.T) []string {
			return []string{need(t, "python3"), filepath.Join("..", "..", "examples", "testclock", "test_reminder.py")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			command := prepare(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, command[0], command[1:]...)
			cmd.Env = append(crash.Environ(), "SERVICE="+harness.Binary(t))
			cmd.WaitDelay = time.Second
			out, err := cmd.CombinedOutput()
			took := regexp.MustCompile(`three hours took \d+ ms`).Find(out)
			if err != nil || took == nil {
				t.Fatalf("%v\n%s", err, out)
			}
			t.Log(string(took))
		})
	}
}

// java compiles and runs one file, with the libraries of pom.xml, which Maven gets once.
func java(t *testing.T, file string) []string {
	t.Helper()
	need(t, "javac")
	libraries := filepath.Join(harness.Folder(t), "java")
	get(t, libraries, need(t, "mvn"), "-q", "-B", "-f", filepath.Join(clients, "pom.xml"), "dependency:copy-dependencies", "-DoutputDirectory="+libraries)
	return []string{need(t, "java"), "-XX:TieredStopAtLevel=1", "-cp", filepath.Join(libraries, "*"), filepath.Join(clients, file)}
}

// python runs a program with the libraries of requirements.txt, in an environment of its own.
func python(t *testing.T, file string) []string {
	t.Helper()
	environment := filepath.Join(harness.Folder(t), "python")
	interpreter := filepath.Join(environment, "bin", "python")
	get(t, environment, need(t, "python3"), "-m", "venv", environment)
	get(t, filepath.Join(environment, "installed"), interpreter, "-m", "pip", "install", "-q",
		"--report", filepath.Join(environment, "installed"), "-r", filepath.Join(clients, "requirements.txt"))
	return []string{interpreter, filepath.Join(clients, file)}
}

// get runs a command that makes a file, such as one that downloads libraries, unless the file is there.
func get(t *testing.T, file, name string, args ...string) {
	t.Helper()
	installing.Lock()
	defer installing.Unlock()
	if _, err := os.Stat(file); err == nil {
		return
	}
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		harness.Missing(t, "%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	name = filepath.Join(dir, name)
	harness.Must(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}
