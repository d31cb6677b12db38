package interop_test

import (
	"context"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// languages are the programs of docs/clients.md, by their marks. The programs in
// TypeScript are compiled before, all at once.
var languages = map[string]language{
	"curl":             {overHTTP, shell("curl")},
	"curl-events":      {overHTTP, shell("curl")},
	"java-http":        {overHTTP, java()},
	"java-rabbitmq":    {overRabbitMQ, java("/usr/share/java/amqp-client.jar", "/usr/share/java/slf4j-api.jar")},
	"kcat":             {overKafka, shell("kcat")},
	"python-http":      {overHTTP, python("urllib.request")},
	"python-kafka":     {overKafka, python("confluent_kafka")},
	"python-rabbitmq":  {overRabbitMQ, python("pika")},
	"typescript-kafka": {overKafka, nil},
	"typescript-nats":  {overNATS, nil},
}

type language struct {
	serve   func(t *testing.T, dir string) service
	prepare func(t *testing.T, dir, program string) (command []string)
}

// A service is how a program reaches a running service.
type service struct {
	environ []string
	names   []string // names in the program and those to use instead, in turns
}

var (
	markedBlock = regexp.MustCompile("(?s)<!-- run:([a-z-]+) -->\n```[a-z]+\n(.*?)```")
	dueCall     = regexp.MustCompile(`(order-[0-9a-f-]+)( is due|",.*"(reachedAt|latenessMs)":)`)
)

// TestProgramsOfTheDocs runs the programs of docs/clients.md as they stand there. Each
// schedules a timer and prints its event.
func TestProgramsOfTheDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "clients.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := make(map[string]string)
	for _, block := range markedBlock.FindAllStringSubmatch(string(page), -1) {
		blocks[block[1]] = block[2]
	}
	if got, want := slices.Sorted(maps.Keys(blocks)), slices.Sorted(maps.Keys(languages)); !slices.Equal(got, want) {
		t.Fatalf("docs/clients.md has the programs %v, want %v", got, want)
	}
	t.Run("typescript", func(t *testing.T) {
		t.Parallel()
		dir := compileTypeScript(t, blocks)
		for mark := range blocks {
			if l := languages[mark]; l.prepare == nil {
				l.prepare = func(t *testing.T, _, _ string) []string {
					t.Helper()
					return []string{need(t, "node"), filepath.Join(dir, mark+".mjs")}
				}
				t.Run(mark, l.run(blocks[mark]))
			}
		}
	})
	for mark, l := range languages {
		if l.prepare != nil {
			t.Run(mark, l.run(blocks[mark]))
		}
	}
}

// run returns the test of a program.
func (l language) run(program string) func(t *testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		s := l.serve(t, dir)
		for i := 0; i < len(s.names); i += 2 {
			if !strings.Contains(program, s.names[i]) {
				t.Fatalf("the program does not name %s", s.names[i])
			}
		}
		command := l.prepare(t, dir, strings.NewReplacer(s.names...).Replace(program))
		call := printedCall(t, s, command)
		(&programs{T: t, dir: dir}).becomes(call, "Reached")
	}
}

// printedCall runs a program and returns the service call of the event that it prints.
func printedCall(t *testing.T, s service, command []string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(append(os.Environ(), "KAFKAJS_NO_PARTITIONER_WARNING=1"), s.environ...)
	cmd.WaitDelay = time.Second // curl and kcat may outlive their shell
	out, err := cmd.CombinedOutput()
	calls := dueCall.FindAllSubmatch(out, -1)
	if err != nil || len(calls) == 0 {
		t.Fatalf("the program printed no event, and ended with %v\n%s", err, out)
	}
	return string(calls[len(calls)-1][1])
}

func overHTTP(t *testing.T, dir string) service {
	t.Helper()
	printed := serveLines(t, dir, "TIMER_BROKER=nats", "TIMER_BROKER_URL=", "TIMER_NATS_PORT=0", "TIMER_HTTP_ADDR=127.0.0.1:0")
	address, _, _ := strings.Cut(printed["http"], ",")
	return service{environ: []string{"API=" + address}}
}

func overNATS(t *testing.T, dir string) service {
	t.Helper()
	u, err := url.Parse(serveIn(t, dir, "TIMER_BROKER=nats", "TIMER_BROKER_URL=", "TIMER_NATS_PORT=0"))
	if err != nil {
		t.Fatal(err)
	}
	return service{environ: []string{"BROKER=nats://" + u.Host}} // without the secret
}

func overKafka(t *testing.T, dir string) service {
	t.Helper()
	return service{environ: []string{"BROKER=" + serveKafkaIn(t, dir)}}
}

// overRabbitMQ has names of its own, since others use the server, too. To the client
// for Java a URL that ends in / names an empty virtual host.
func overRabbitMQ(t *testing.T, dir string) service {
	t.Helper()
	r := serveRabbitMQIn(t, dir, "acme")
	return service{
		environ: []string{"BROKER=" + strings.TrimSuffix(r.url, "/")},
		names:   []string{"timer.commands", r.commands, "svc.direct", r.exchange, "svc.acme.q", strings.ReplaceAll(r.events, "{tenant}", "acme")},
	}
}

// shell runs a script that uses a program.
func shell(uses string) func(t *testing.T, dir, program string) []string {
	return func(t *testing.T, dir, program string) []string {
		t.Helper()
		need(t, uses)
		return []string{need(t, "bash"), write(t, dir, "timer.sh", program)}
	}
}

// java compiles and runs one file, with libraries.
func java(jars ...string) func(t *testing.T, dir, program string) []string {
	return func(t *testing.T, dir, program string) []string {
		t.Helper()
		need(t, "javac")
		for _, jar := range jars {
			if _, err := os.Stat(jar); err != nil {
				missing(t, "a library is not installed: %v", err)
			}
		}
		classPath := strings.Join(jars, string(os.PathListSeparator))
		return []string{need(t, "java"), "-XX:TieredStopAtLevel=1", "-cp", classPath, write(t, dir, "OrderTimer.java", program)}
	}
}

// python runs a program with the first interpreter that has a module: the one that
// packages of Debian are for need not be the first on the path.
func python(module string) func(t *testing.T, dir, program string) []string {
	return func(t *testing.T, dir, program string) []string {
		t.Helper()
		for _, interpreter := range []string{"python3", "/usr/bin/python3"} {
			if exec.CommandContext(t.Context(), interpreter, "-c", "import "+module).Run() == nil {
				return []string{interpreter, write(t, dir, "timer.py", program)}
			}
		}
		missing(t, "Python 3 with the module %s is not installed", module)
		return nil
	}
}

// compileTypeScript compiles programs with all checks, and returns the folder of
// what comes out.
func compileTypeScript(t *testing.T, blocks map[string]string) string {
	t.Helper()
	node := need(t, "node")
	dir := folder(t)
	args := []string{installed("typescript/bin/tsc"), "--strict", "--target", "es2022", "--module", "nodenext", "--skipLibCheck"}
	for mark, program := range blocks {
		if languages[mark].prepare == nil {
			args = append(args, write(t, dir, mark+".mts", program))
		}
	}
	compile := exec.CommandContext(t.Context(), node, args...)
	compile.Dir = dir
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("tsc: %v\n%s", err, out)
	}
	return dir
}

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	name = filepath.Join(dir, name)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
