// Command timer-service runs the timer service, and talks to one that runs:
// timer-service --help lists its verbs.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	os.Exit(run(untilSignal(), os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

// untilSignal returns a context that the first SIGINT or SIGTERM cancels, for a
// clean stop. The second one ends the process at once.
func untilSignal() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		<-signals
		os.Exit(exitFailure)
	}()
	return ctx
}
