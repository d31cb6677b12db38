// Command matrix turns the output of the contract's tests into the table of
// docs/brokers/README.md, broker by promise:
//
//	go test -json -run 'TestContract|TestWatermill' ./broker/... | go run ./internal/matrix
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
)

// columns are the servers that the contract is run against, by package and
// test, and whether Watermill's own tests are run there too.
var columns = []struct {
	test, title string
	watermill   bool
}{
	{"gochannel/TestContract", "gochannel", true},
	{"nats/TestContractInProcess", "NATS in this process", true},
	{"nats/TestContractOnAProcess", "nats-server of the Go module", false},
	{"nats/TestContractOnAnotherProcess", "nats-server of Debian", false},
	{"kafka/TestContract", "kfake", true},
	{"rabbitmq/TestContract", "RabbitMQ", true},
	{"rabbitmq/TestContractOfQuorumQueues", "RabbitMQ, quorum queues", false},
}

// watermill is the test that runs Watermill's own.
const watermill = "TestWatermill"

func main() {
	table, err := read(os.Stdin)
	if err == nil {
		err = table.write(os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		os.Exit(1)
	}
}

// An event is a line of go test -json, see go doc test2json.
type event struct{ Action, Package, Test string }

// A table has what became of each promise on each server.
type table struct {
	promises []string                     // in the order of the contract
	results  map[string]map[string]string // by promise and test: pass, fail or skip
}

// worse orders what may become of the parts of a promise: the worst counts, but
// one that is skipped does not spoil those that pass.
var worse = map[string]int{"": 0, "run": 1, "skip": 2, "pass": 3, "fail": 4}

// promise returns which promise the event is about, if any. Of Watermill's tests
// each is one, with its variants.
func (e event) promise() (string, bool) {
	name, promise, isCase := strings.Cut(e.Test, "/")
	switch {
	case !isCase || worse[e.Action] == 0:
		return "", false
	case name == watermill:
		promise, _, _ = strings.Cut(promise, "/")
		return "Watermill: " + promise, true
	}
	return promise, strings.HasPrefix(name, "TestContract") && !strings.Contains(promise, "/")
}

// read reads the output of go test -json.
func read(in io.Reader) (*table, error) {
	t := &table{results: make(map[string]map[string]string)}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("this is no output of go test -json: %w", err)
		}
		promise, ok := e.promise()
		if !ok {
			continue
		}
		if t.results[promise] == nil {
			t.promises = append(t.promises, promise)
			t.results[promise] = make(map[string]string)
		}
		name, _, _ := strings.Cut(e.Test, "/")
		test := path.Base(e.Package) + "/" + name
		if worse[e.Action] > worse[t.results[promise][test]] {
			t.results[promise][test] = e.Action
		}
	}
	if len(t.promises) == 0 {
		return nil, errors.Join(errors.New("there is no test of the contract in it"), lines.Err())
	}
	return t, lines.Err()
}

// marks are how the table shows what became of a test.
var marks = map[string]string{"pass": "✓", "fail": "**✗**", "skip": "–", "run": "?", "": ""}

func (t *table) write(out io.Writer) error {
	var b strings.Builder
	b.WriteString("| promise |")
	for _, c := range columns {
		b.WriteString(" " + c.title + " |")
	}
	b.WriteString("\n| --- |" + strings.Repeat(" :-: |", len(columns)) + "\n")
	for _, promise := range t.promises {
		b.WriteString("| " + strings.ReplaceAll(promise, "_", " ") + " |")
		for _, c := range columns {
			test := c.test
			if c.watermill && strings.HasPrefix(promise, "Watermill: ") {
				test = path.Dir(c.test) + "/" + watermill
			}
			b.WriteString(" " + marks[t.results[promise][test]] + " |")
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}
