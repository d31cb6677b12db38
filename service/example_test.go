package service_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/service"
)

// A database is made, or brought up to date, before the service starts.
func ExampleMigrate() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx, cfg := context.Background(), config.Default()
	cfg.DBPath = filepath.Join(dir, "timers.db")

	from, to, err := service.Migrate(ctx, cfg, false)
	fmt.Println(from, to == service.SchemaVersions()["sqlite"], err)
	version, latest, script, err := service.Schema(ctx, cfg)
	fmt.Printf("%v %q %v\n", version == latest, script, err)
	// Output:
	// 0 true <nil>
	// true "" <nil>
}

// What the configuration can't have is an error to branch on.
func ExampleClient() {
	cfg, log := config.Default(), slog.New(slog.DiscardHandler)
	cfg.Broker = config.GoChannel
	_, _, err := service.Client(cfg, log)
	fmt.Println(errors.Is(err, service.ErrNoClient))
	_, err = service.Provision(context.Background(), cfg, true, log)
	fmt.Println(errors.Is(err, service.ErrNothingToProvision))

	cfg.Broker, cfg.BrokerURL = config.Kafka, config.NewSecret("kafka://user:hunter2@broker:9092")
	b, address, err := service.Client(cfg, log) // to be run
	fmt.Println(b.Routing().Commands, address, err)
	// Output:
	// true
	// true
	// timer.commands kafka://***@broker:9092 <nil>
}
