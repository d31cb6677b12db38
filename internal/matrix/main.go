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
		if e.Action != "pass" && e.Action != "fail" && e.Action != "skip" {
			continue
		}
		name, promise, isCase := strings.Cut(e.Test, "/")
		if !isCase || strings.Contains(promise, "/") || !strings.HasPrefix(name, "TestContract") && name != watermill {
			continue
		}
		if name == watermill {
			promise = "Watermill: " + promise
		}
		if t.results[promise] == nil {
			t.promises = append(t.promises, promise)
			t.results[promise] = make(map[string]string)
		}
		t.results[promise][path.Base(e.Package)+"/"+name] = e.Action
	}
	if len(t.promises) == 0 {
		return nil, errors.Join(errors.New("there is no test of the contract in it"), lines.Err())
	}
	return t, lines.Err()
}

// marks are how the table shows what became of a test.
var marks = map[string]string{"pass": "✓", "fail": "**✗**", "skip": "–", "": ""}

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
