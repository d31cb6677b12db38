// Command kafkad is Kafka in one small process, for tests that need a broker which outlives
// the service, and for trying the service without Kafka. It speaks the protocol and keeps
// its data on disk. It does not replace Kafka, since it has one broker and no replicas.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "kafkad:", err)
		os.Exit(1)
	}
}

// run serves until ctx is done. It prints "ready" and its address to out when
// it listens, on the loopback interface only.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("kafkad", flag.ContinueOnError)
	port := flags.Int("port", 9092, "port on the loopback interface; 0 takes any free one")
	dir := flags.String("dir", "", "folder for the data; without it nothing outlives the process")
	lazy := flags.Bool("lazy", false, "leave it to the system when data reach the disk")
	if err := flags.Parse(args); err != nil {
		return err
	}
	opts := []kfake.Opt{kfake.NumBrokers(1), kfake.Ports(*port)}
	if *dir != "" {
		opts = append(opts, kfake.DataDir(*dir))
		if !*lazy {
			opts = append(opts, kfake.SyncWrites())
		}
	}
	c, err := kfake.NewCluster(opts...)
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	defer c.Close()
	for _, address := range c.ListenAddrs() {
		if _, err := fmt.Fprintln(out, "ready", address); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}
