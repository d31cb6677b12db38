package main

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// begin runs the server until stop is called, and returns where it listens.
func begin(t *testing.T, args ...string) (address string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	in, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, args, out)
		out.CloseWithError(err)
		ended <- err
	}()
	line, err := bufio.NewReader(in).ReadString('\n')
	word, address, _ := strings.Cut(strings.TrimSpace(line), " ")
	if err != nil || word != "ready" {
		t.Fatalf("it printed %q, %v", line, err)
	}
	return address, func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestRecordsOutliveTheServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	address, stop := begin(t, "--port=0", "--dir="+dir)
	writer, err := kgo.NewClient(kgo.SeedBrokers(address))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kadm.NewClient(writer).CreateTopic(t.Context(), 1, -1, nil, "topic"); err != nil {
		t.Fatal(err)
	}
	if err := writer.ProduceSync(t.Context(), &kgo.Record{Topic: "topic", Value: []byte("hello")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	writer.Close()
	stop()

	address, stop = begin(t, "--port=0", "--dir="+dir, "--lazy")
	defer stop()
	reader, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ConsumeTopics("topic"))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if got := reader.PollFetches(t.Context()).Records(); len(got) != 1 || string(got[0].Value) != "hello" {
		t.Errorf("read %v", got)
	}
}
