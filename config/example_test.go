package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/event-service-agent/timer-service/config"
)

// A flag wins over the environment, and that over the file.
func ExampleLoad() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "timer.yaml")
	if err := os.WriteFile(file, []byte("polling_interval: 1s\nbatch_size: 200\nretention: 14d\n"), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	cfg, err := config.Load(
		map[string]string{"batch-size": "500"},                        // as from flags
		[]string{"TIMER_BATCH_SIZE=300", "TIMER_POLLING_INTERVAL=2s"}, // as from os.Environ
		file,
	)
	fmt.Println(cfg.BatchSize, cfg.PollingInterval, config.FormatDuration(cfg.Retention), err)
	// Output: 500 2s 14d <nil>
}

// All mistakes are reported at once, each with where it was made and what to do.
func ExampleMistake() {
	_, err := config.Load(map[string]string{"broker": "pigeon"}, []string{"TIMER_BATCH_SIZE=many"}, "")
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		fmt.Println(err)
		return
	}
	for _, err := range joined.Unwrap() {
		if m, ok := errors.AsType[*config.Mistake](err); ok {
			fmt.Printf("%s = %q (%s)\n", m.Key, m.Value, m.From)
		}
	}
	// Unordered output:
	// batch_size = "many" (TIMER_BATCH_SIZE)
	// broker = "pigeon" (--broker)
}

// A secret is not printed, whatever it is part of.
func ExampleSecret() {
	cfg := config.Default()
	cfg.BrokerURL = config.NewSecret("nats://user:hunter2@broker:4222")
	fmt.Println(cfg.BrokerURL, cfg.BrokerURL.URL())
	fmt.Println(len(cfg.BrokerURL.Reveal()), "bytes")
	// Output:
	// *** nats://***@broker:4222
	// 31 bytes
}

func ExampleParseDuration() {
	for _, text := range []string{"5000", "30s", "1d12h", "soon"} {
		d, err := config.ParseDuration(text)
		fmt.Println(d, err != nil)
	}
	// Output:
	// 5s false
	// 30s false
	// 36h0m0s false
	// 0s true
}
