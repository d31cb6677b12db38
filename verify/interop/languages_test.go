package interop_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/verify/crash"
)

// languages are the programs of examples/clients, by their files. What is written in
// TypeScript is compiled before.
var languages = map[string]language{
	"OrderTimer.java": {overRabbitMQ, java},
	"http.sh":         {overHTTP, shell},
	"kafka.py":        {overKafka, python},
	"nats.mts":        {overNATS, typeScript},
}

type language struct {
	serve   func(t *testing.T, dir string) (environ string) // by which the program finds the service
	prepare func(t *testing.T, dir, program string) (command []string)
}

var dueCall = regexp.MustCompile(`(order-[0-9a-f-]+)( is due|",.*"reachedAt":)`)

// TestProgramsOfTheDocs runs the programs to which docs/clients.md leads. Each schedules
// a timer and prints its event.
func TestProgramsOfTheDocs(t *testing.T) {
	t.Parallel()
	dir := filepath.Join("..", "..", "examples", "clients")
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(languages) {
		t.Errorf("%s has %d programs, and %d are run", dir, len(files), len(languages))
	}
	for name, l := range languages {
		program, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, l.run(string(program)))
	}
}

// run returns the test of a program.
func (l language) run(program string) func(t *testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		environ := l.serve(t, dir)
		call := printedCall(t, environ, l.prepare(t, dir, program))
		awaitReached(t, dir, call)
	}
}

// awaitReached waits until the service has fired a timer.
func awaitReached(t *testing.T, dir, call string) {
	t.Helper()
	deadline := time.After(receiveTimeout)
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		cmd := exec.CommandContext(t.Context(), binary(t), "get", "acme", call)
		cmd.Env = append(crash.Environ(), "TIMER_DB_PATH="+filepath.Join(dir, "timers.db"))
		out, err := cmd.CombinedOutput()
		if err == nil && strings.Contains(string(out), "Reached") {
			return
		}
		select {
		case <-again.C:
		case <-deadline:
			t.Fatalf("get acme %s: %v\n%s", call, err, out)
		}
	}
}

// printedCall runs a program and returns the service call of the event that it prints.
func printedCall(t *testing.T, environ string, command []string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), environ)
	cmd.WaitDelay = time.Second // curl may outlive its shell
	out, err := cmd.CombinedOutput()
	calls := dueCall.FindAllSubmatch(out, -1)
	if err != nil || len(calls) == 0 {
		t.Fatalf("the program printed no event, and ended with %v\n%s", err, out)
	}
	return string(calls[len(calls)-1][1])
}

func overHTTP(t *testing.T, dir string) string {
	t.Helper()
	return "API=" + api(serveIn(t, dir, embedded...))
}

func overNATS(t *testing.T, dir string) string {
	t.Helper()
	return "BROKER=" + serveIn(t, dir, embedded...)["ready"]
}

func overKafka(t *testing.T, dir string) string {
	t.Helper()
	url := startBroker(t, crash.KafkaHere())
	serveIn(t, dir, "TIMER_BROKER=kafka", "TIMER_BROKER_URL="+url)
	return "BROKER=" + strings.TrimPrefix(url, "kafka://")
}

func overRabbitMQ(t *testing.T, dir string) string {
	t.Helper()
	url := startBroker(t, crash.RabbitMQ)
	serveIn(t, dir, "TIMER_BROKER=rabbitmq", "TIMER_BROKER_URL="+url)
	return "BROKER=" + url
}

// shell runs a script that uses curl.
func shell(t *testing.T, dir, program string) []string {
	t.Helper()
	need(t, "curl")
	return []string{need(t, "bash"), write(t, dir, "timer.sh", program)}
}

// java compiles and runs one file, with the client of RabbitMQ.
func java(t *testing.T, dir, program string) []string {
	t.Helper()
	need(t, "javac")
	jars := []string{"/usr/share/java/amqp-client.jar", "/usr/share/java/slf4j-api.jar"}
	for _, jar := range jars {
		if _, err := os.Stat(jar); err != nil {
			missing(t, "a library is not installed: %v", err)
		}
	}
	classPath := strings.Join(jars, string(os.PathListSeparator))
	return []string{need(t, "java"), "-XX:TieredStopAtLevel=1", "-cp", classPath, write(t, dir, "OrderTimer.java", program)}
}

// python runs a program with the first interpreter that has the client of Kafka: the one
// that packages of Debian are for need not be the first on the path.
func python(t *testing.T, dir, program string) []string {
	t.Helper()
	for _, interpreter := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(t.Context(), interpreter, "-c", "import confluent_kafka").Run() == nil {
			return []string{interpreter, write(t, dir, "timer.py", program)}
		}
	}
	missing(t, "Python 3 with the module confluent_kafka is not installed")
	return nil
}

// typeScript compiles a program with all checks, in a folder that has what it imports.
func typeScript(t *testing.T, _, program string) []string {
	t.Helper()
	node, dir := need(t, "node"), folder(t)
	write(t, dir, "timer.mts", program)
	compile := exec.CommandContext(t.Context(), node, installed("typescript/bin/tsc"),
		"--strict", "--target", "es2022", "--module", "nodenext", "--skipLibCheck", "timer.mts")
	compile.Dir = dir
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("tsc: %v\n%s", err, out)
	}
	return []string{node, filepath.Join(dir, "timer.mjs")}
}

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	name = filepath.Join(dir, name)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
