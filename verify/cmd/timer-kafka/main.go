// Command timer-kafka runs Apache Kafka for tests until it is interrupted: timer-kafka --help
// lists its flags.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/event-service-agent/timer-service/verify/internal/command"
	"github.com/event-service-agent/timer-service/verify/internal/kafkanode"
)

const description = `Runs Apache Kafka on the loopback interface until it is interrupted. Java 17 and Maven
have to be installed; Maven fetches Kafka. When it listens, it prints "ready" and its address.`

type cli struct {
	Port  int    `help:"Where the first node listens; 0 takes any port."`
	Nodes int    `default:"1" help:"How many."`
	Dir   string `required:"" type:"path" help:"Folder for the data, which is made if it is not there."`
}

func main() {
	var c cli
	os.Exit(command.Main("timer-kafka", description, &c, func(ctx context.Context, _ string) error { return c.run(ctx) }))
}

func (c *cli) run(ctx context.Context) error {
	began := time.Now()
	version, err := kafkanode.Fetch()
	if err != nil {
		return err
	}
	fetched := time.Now()
	nodes, err := kafkanode.Start(ctx, c.Dir, kafkanode.Options{Port: c.Port, Nodes: c.Nodes})
	if err != nil {
		return err
	}
	defer nodes.Kill()
	fmt.Printf("Kafka %s: to get it took %.0f s, to start it %.0f s\nready %s\n", version, fetched.Sub(began).Seconds(), time.Since(fetched).Seconds(), nodes.URL())
	<-ctx.Done()
	return nil
}
